#!/usr/bin/python3
"""Few commands that still show a difference which run.py --log LOG has found.

reduce.py LOG TEXT [--tests N]: commands are left out of the log (delta debugging: Zeller and Hildebrandt, 2002) as long as
the last one still gives TEXT, which is part of its SQLSTATE or message.  Prints them, with the node of each.
"""
import argparse
import pathlib
import re
import time

import psycopg

from run import Round, outcome
from servers import Difference, Servers


def commands_of(log):
    """[(node, command)] of a log of run.py"""
    lines = pathlib.Path(log).read_text().split('\n')
    return [(int(node[1]), re.sub(r';(   -- .*)?$', '', command))
            for node, command in ((re.match(r'^-- ([12])$', a), b) for a, b in zip(lines, lines[1:])) if node]


class Reducer:
    def __init__(self, servers, text, tests):
        self.servers, self.text, self.left = servers, text, tests
        self.seed = int(time.time()) % 1000000 + 1000000

    def shows(self, commands):
        """Do these commands, in an empty database, still show it?"""
        self.left -= 1
        self.seed += 1
        r = Round(self.servers, self.seed, 0)
        r.begin()
        found = ('', 0, '')
        try:
            for where, command in commands:
                session = r.sessions[where]
                idle = session.info.transaction_status == psycopg.pq.TransactionStatus.IDLE
                if not (idle and command.startswith(('SAVEPOINT', 'ROLLBACK TO', 'RELEASE'))):
                    found = outcome(session, command)
        except Difference as e:
            found = ('', 0, str(e))
        r.end()
        return self.text in f'{found[0]} {found[2]}'

    def reduce(self, commands):
        parts = 2
        while len(commands) >= 2 and self.left > 0:
            size = max(1, len(commands) // parts)
            for i in range(0, len(commands) - 1, size):
                fewer = commands[:i] + commands[min(i + size, len(commands) - 1):]
                if len(fewer) < len(commands) and self.shows(fewer):
                    commands, parts = fewer, max(parts - 1, 2)
                    break
            else:
                if size == 1:
                    break
                parts = min(parts * 2, len(commands))
        return commands


def main():
    p = argparse.ArgumentParser()
    p.add_argument('log')
    p.add_argument('text')
    p.add_argument('--tests', type=int, default=200)
    p.add_argument('--port', type=int, default=29600)
    o = p.parse_args()
    servers = Servers(o.port)
    try:
        r = Reducer(servers, o.text, o.tests)
        commands = commands_of(o.log)
        if not r.shows(commands):
            raise SystemExit(f'these {len(commands)} commands do not show it')
        for where, command in r.reduce(commands):
            print(f'-- {where}\n{command};')
    finally:
        servers.down()


if __name__ == '__main__':
    main()
