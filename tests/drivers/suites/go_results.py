#!/usr/bin/python3
"""From "go test -json" on stdin: "PACKAGE.TEST pass|fail|skip" for each test; what failed tests print goes to stderr.

In the name of a subtest may be a temporary directory, whose name is another in each run.
"""
import json
import re
import sys

printed = {}
for line in sys.stdin:
    try:
        event = json.loads(line)
    except ValueError:                      # of the compiler
        sys.stderr.write(line)
        continue
    what = event['Action']
    name = event.get('Package', '') + '.' + event.get('Test', '')
    if what == 'output' or what == 'build-output':
        printed.setdefault(name, []).append(event.get('Output', ''))
    elif what in ('pass', 'fail', 'skip'):
        said = ''.join(printed.pop(name, []))
        if what == 'fail':
            print('====', name, '\n', said, file=sys.stderr)
        if event.get('Test'):
            print(re.sub(r'/tmp/(Test\w*?)\d+/', r'/tmp/\1/', name.replace(' ', '_')), what, flush=True)
