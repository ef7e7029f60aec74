#!/usr/bin/python3
"""Run node-postgres' tests; print "TEST pass|fail|skip" for each.

A file of pg's is a program, which prints the names of its tests with a tick, and ends at the first that fails; so the file
is a test, too.  Those of pg-pool and pg-cursor are mocha's.
"""
import glob
import json
import re
import subprocess
import sys

LIMIT = 120


def say(name, result):
    print(re.sub(r'\s+', '_', name), result, flush=True)


def run(command, where):
    try:
        # apart: a warning is printed between a test's name and its tick
        p = subprocess.run(command, cwd=where, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                           timeout=LIMIT, encoding='utf-8', errors='replace')
        return p.returncode, p.stdout, p.stderr
    except subprocess.TimeoutExpired as e:
        return -1, *((said or b'').decode('utf-8', 'replace') for said in (e.stdout, (e.stderr or b'') + b'\nnot done in time\n'))


for path in sorted(glob.glob('packages/pg/test/integration/**/*-tests.js', recursive=True)):
    name = path.removeprefix('packages/pg/test/')
    rc, out, err = run(['node', path.removeprefix('packages/pg/')], 'packages/pg')
    if rc != 0:
        print('====', name, '\n', out, err, file=sys.stderr, flush=True)
    say(name, 'pass' if rc == 0 else 'fail')
    for line in out.splitlines():
        test = re.match(r'  (.*) (✔|\? - SKIPPED)$', line)
        if test:
            say(name + ':' + test[1], 'pass' if test[2] == '✔' else 'skip')

for package in ('pg-pool', 'pg-cursor'):
    rc, _, out = run(['../../node_modules/.bin/mocha', '--reporter', 'json', '--reporter-option', 'output=/dev/stderr'], 'packages/' + package)
    start = out.find('{\n  "stats"')
    if start < 0:
        print('====', package, '\n', out, file=sys.stderr)
        say(package, 'fail')
        continue
    report = json.JSONDecoder().raw_decode(out[start:])[0]
    for result, tests in (('pass', report['passes']), ('skip', report['pending']), ('fail', report['failures'])):
        for test in tests:
            say(package + ':' + test['fullTitle'], result)
            if result == 'fail':
                print('====', package, test['fullTitle'], '\n', json.dumps(test['err']), file=sys.stderr)
