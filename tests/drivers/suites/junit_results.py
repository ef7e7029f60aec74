#!/usr/bin/python3
"""From the reports of surefire: "CLASS.TEST pass|fail|skip" for each test; why one failed goes to stderr."""
import sys
import xml.etree.ElementTree as ET

for path in sys.argv[1:]:
    for case in ET.parse(path).getroot().iter('testcase'):
        name = (case.get('classname', '') + '.' + case.get('name', '')).replace(' ', '_').replace('\n', '_')
        failed = case.find('failure') if case.find('failure') is not None else case.find('error')
        if failed is not None:
            print('====', name, '\n', failed.text, file=sys.stderr)
        print(name, 'fail' if failed is not None else 'skip' if case.find('skipped') is not None else 'pass')
