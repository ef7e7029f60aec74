#!/usr/bin/python3
"""Random commands on the nodes of a cluster, and the same on a server without lockstep: make check-differential.

One command after the other, on a node that is drawn; causal reads, so that each sees what was done before on the other
node.  Each has to succeed where the plain server does, with the same number of rows; 0A000 of lockstep is no difference,
and is not done there.  Every so often all nodes have to be equal: the schema as pg_dump writes it, and
lockstepctl verify.  A difference ends the run, with the commands since the last comparison and the seed.

run.py [--seconds N] [--seed N] [--rounds N] [--settings] [--log FILE]: a round has a seed of its own, and begins with an empty
database.  --settings: the second node has other settings in postgresql.conf.  The log of a difference is what reduce.py makes smaller.
"""
import random
import time

import psycopg

from commands import Generator
from servers import Difference, compare, options, rounds, set_up

COMPARE_EVERY = 60
LIMIT = "SET statement_timeout = '20s'"


def outcome(connection, command, extended=False):
    """(SQLSTATE or 'ok', number of rows, message)"""
    try:
        cursor = connection.execute(command, binary=extended and ';' not in command)
        return 'ok', -1 if command.startswith('EXPLAIN') else cursor.rowcount, ''     # a plan has any number of lines
    except psycopg.Error as e:
        if e.sqlstate is None:
            raise Difference(f'the connection is lost: {e}') from e
        return e.sqlstate, -1, str(e)


class Round:
    def __init__(self, servers, seed, until):
        self.servers, self.seed, self.until = servers, seed, until
        self.random = random.Random(seed)
        self.database = f'd{seed}'
        self.log = []
        self.commands = self.refused = self.failed = self.other = 0

    def open(self, where, settings=()):
        c = self.servers.connect(where, self.database, settings)
        c.execute(LIMIT)
        if where != 'plain':
            c.execute('SET lockstep.causal_reads = on')
        return c

    def begin(self):
        for where in ('plain', 1):
            with self.servers.connect(where, 'postgres') as c:
                c.execute(f'CREATE DATABASE {self.database}')
        self.sessions = {where: self.open(where) for where in ('plain', 1, 2)}
        # each node's client has a session of its own there, whose settings and temporary tables are alike
        self.twins = {1: self.sessions['plain'], 2: self.open('plain', self.servers.other_settings)}
        for where in ('plain', 1):
            set_up(self.sessions[where])

    def run(self, where, block):
        node, twin = self.sessions[where], self.twins[where]
        for command in block:
            self.log.append(f'-- {where}\n{command};')
            self.commands += 1
            if node.info.transaction_status == psycopg.pq.TransactionStatus.IDLE and command.startswith(('SAVEPOINT', 'ROLLBACK TO', 'RELEASE')):
                continue
            extended = self.random.random() < 0.3       # protocol
            here = outcome(node, command, extended)
            if here[0] == '0A000' and ('lockstep' in here[2] or 'replicate' in here[2] or 'node' in here[2]):
                self.refused += 1
                self.log[-1] += f'   -- refused: {here[2].splitlines()[0]}'
                if twin.info.transaction_status != psycopg.pq.TransactionStatus.IDLE:
                    outcome(node, 'ROLLBACK')
                    outcome(twin, 'ROLLBACK')
                    return
                continue
            there = outcome(twin, command, extended)
            self.failed += here[0] != 'ok'
            self.log[-1] += f'   -- {here[:2]}'
            if here[0] != 'ok' and len(block) > 1:
                for c in (node, twin):
                    outcome(c, 'ROLLBACK TO s')         # if there is one, it goes on
            if here[0] != there[0] and 'ok' not in (here[0], there[0]):
                self.log[-1] += f'   -- plain: {there[0]}'
                self.other += 1     # one of several errors comes first
            elif here[:2] != there[:2]:
                raise Difference(f'node {where}: {here}\nplain: {there}\n{command}')
        for c in (node, twin):
            if c.info.transaction_status != psycopg.pq.TransactionStatus.IDLE:
                outcome(c, 'ROLLBACK')

    def end(self):
        for c in [*self.sessions.values(), *self.twins.values()]:
            c.close()
        for where in ('plain', 1):
            with self.servers.connect(where, 'postgres') as c:
                c.execute(f'DROP DATABASE {self.database} WITH (FORCE)')

    def compare(self):
        # pg_dump orders tables otherwise where a session has a temporary child of one
        for c in [*self.sessions.values(), *self.twins.values()]:
            c.execute('DISCARD TEMP')
        compare(self.servers, self.database)
        self.log.append('-- compared')

    def go(self):
        self.begin()
        generator = Generator(self.random)
        for _ in range(12):
            self.run(1, [generator.create_table()])
        n = 0
        while time.monotonic() < self.until and n < 400:
            n += 1
            self.run(self.random.choice([1, 2]), generator.command())
            if n % COMPARE_EVERY == 0:
                self.compare()
        self.compare()
        self.end()

    def told(self):
        return f'{self.commands} commands, {self.failed} failed, {self.refused} refused by lockstep, {self.other} with another error'


if __name__ == '__main__':
    rounds(options(29500).parse_args(), Round)
