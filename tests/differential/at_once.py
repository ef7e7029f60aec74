#!/usr/bin/python3
"""Random commands by several clients on each node at once: make check-differential.

No outcome can be foretold here, but some must not be: an internal error, a lost connection or COMMIT, a statement that
takes longer than LIMIT, a value of a sequence that is given out twice.  After each round the nodes have to be online and equal: the schema as pg_dump writes it, and
lockstepctl verify.

at_once.py [--seconds N] [--seed N] [--rounds N] [--nodes N] [--replicators N] [--clients N] [--disturb] [--settings] [--log FILE]:
N clients on each node; a round has a seed of its own, which draws the commands and the clients' settings, not their order
among clients, and begins with an empty database.  --disturb: meanwhile sessions are canceled, terminated and killed, and so
are servers and replicators.  --settings: all nodes but the first have other settings in postgresql.conf.
"""
import collections
import os
import random
import re
import signal
import threading
import time

import psycopg

from commands import Generator
from servers import Difference, compare, options, rounds, set_up

COMMANDS = 120      # of each client in a round; disturbed, three times as many
LIMIT = 30          # seconds
BACK = 60           # a server that was killed takes connections again
# PostgreSQL's own words for two commands at once on one object (GRANT and ALTER TABLE; DROP of what is looked at).
RACES = re.compile('tuple concurrently (updated|deleted)|cache lookup failed|could not open relation with OID|could not find tuple for|cannot rename trigger'
                   # not two: ALTER DOMAIN ... DROP CONSTRAINT IF EXISTS, SAVEPOINT, then any DDL
                   '|cannot start a subtransaction when there are unprocessed inval messages')


# Some clients have some of these.
SETTINGS = ["lockstep.update_order = 'queued'", "lockstep.update_order = 'optimistic'", "lockstep.commit_wait = 'executed'", "lockstep.commit_wait = 'applied'",
            'lockstep.causal_reads = on', 'lockstep.local_flush = on', 'lockstep.statement_rows = 1', 'lockstep.max_row_keys = 1', 'lockstep.queue_after = 1',
            "default_transaction_isolation = 'serializable'", "default_transaction_isolation = 'repeatable read'"]
# What a client is told when its session, its server or the replicator ends.
DISTURBED = re.compile(r'lost|57P0[123]|08...|57014|25P04')


class Client(threading.Thread):
    def __init__(self, servers, where, database, seed, log, values, disturbed):
        super().__init__()
        self.servers, self.where, self.database, self.log, self.values, self.disturbed = servers, where, database, log, values, disturbed
        self.random = random.Random(seed)
        self.extended = self.random.random() < 0.5      # protocol
        self.settings = self.random.sample(SETTINGS, self.random.choice((0, 0, 1, 2)))
        self.codes = collections.Counter()
        self.fault = None
        self.name = f'{where}/{seed}'

    def execute(self, command):
        begun = time.monotonic()
        try:
            cursor = self.connection.execute(command, binary=self.extended and ';' not in command)
            code, text = 'ok', ''
            if command.startswith('SELECT nextval('):
                text = ' '.join(str(value) for value, in cursor)
                self.values += text.split()
        except psycopg.Error as e:
            code, text = e.sqlstate or 'lost', str(e).replace('\n', ' ')
        took = time.monotonic() - begun
        self.codes[code] += 1
        self.log.append(f'-- {self.name} {begun:.3f} {took:.3f}\n{command};   -- {code} {text[:300]}')
        if code == 'XX000' and RACES.search(text):
            self.codes['race'] += 1
        elif self.disturbed and took < 2 * LIMIT and 'statement timeout' not in text and DISTURBED.fullmatch(code):
            pass
        elif code in ('lost', '57014') or code[:2] in ('XX', '08', '58'):
            self.fault = f'{self.name}, after {took:.1f} s: {code} {text}\n{command}'
        return code

    def connect(self):
        until = time.monotonic() + BACK
        while True:
            try:
                self.connection = self.servers.connect(self.where, self.database)
                self.connection.execute(f"SET statement_timeout = '{LIMIT}s'")
                for setting in self.settings:
                    self.connection.execute(f'SET {setting}')
                return
            except psycopg.Error:
                if not self.disturbed or time.monotonic() > until:
                    raise
                time.sleep(0.1)

    def run(self):
        try:
            self.connect()
            self.go()
            self.connection.close()
        except psycopg.Error as e:
            self.fault = self.fault or f'{self.name}: {e}'

    def go(self):
        generator = Generator(self.random, at_once=True)
        for _ in range(3 * COMMANDS if self.disturbed else COMMANDS):
            block = generator.command()
            for command in block:
                if self.connection.closed or (self.execute(command) != 'ok' and len(block) > 1 and self.random.random() < 0.5):
                    break
            if self.fault:
                return
            if self.connection.closed:
                self.connect()
            elif self.connection.info.transaction_status != psycopg.pq.TransactionStatus.IDLE:
                self.execute('ROLLBACK')


class Disturber(threading.Thread):
    def __init__(self, servers, database, seed, log):
        super().__init__()
        self.servers, self.database, self.log = servers, database, log
        self.random = random.Random(seed)
        self.end = threading.Event()
        self.done = collections.Counter()

    def run(self):
        while not self.end.wait(self.random.uniform(0.05, 1)):
            where = self.random.choice(self.servers.nodes)
            what = self.random.choice((self.cancel, self.cancel, self.terminate, self.terminate, self.kill_session, self.kill_replicator, self.kill_server))
            self.log.append(f'-- {time.monotonic():.3f} {what.__name__} {where}')
            self.done[what.__name__] += 1
            what(where)

    def a_session(self, where, call):
        try:
            with self.servers.connect(where, 'postgres') as c:
                row = c.execute(f"SELECT pid, {call} FROM (SELECT pid FROM pg_stat_activity WHERE datname = %s AND application_name = '' "
                                'ORDER BY random() LIMIT 1) s', (self.database,)).fetchone()
                return row[0] if row else None
        except psycopg.Error:
            return None         # its server starts

    def cancel(self, where):
        self.a_session(where, 'pg_cancel_backend(pid)')

    def terminate(self, where):
        self.a_session(where, 'pg_terminate_backend(pid)')

    def kill_session(self, where):
        pid = self.a_session(where, 'true')
        if pid is not None:
            os.kill(pid, signal.SIGKILL)

    def kill_replicator(self, _where):
        replicator = str(self.random.choice(self.servers.replicators))
        self.servers.cluster('kill-replicator', replicator)
        self.servers.cluster('start-replicator', replicator)

    def kill_server(self, where):
        self.servers.cluster('kill-node', str(where))
        self.servers.cluster('start-node', str(where), '--no-wait')


class Round:
    def __init__(self, servers, seed, clients, disturbed):
        self.servers, self.seed = servers, seed
        self.database = f'c{seed}'
        self.log = []
        self.values = []
        self.codes = collections.Counter()
        self.clients = [Client(servers, where, self.database, seed * 1000 + where * 100 + i, self.log, self.values, disturbed) for where in servers.nodes for i in range(clients)]
        self.disturber = Disturber(servers, self.database, seed, self.log) if disturbed else None

    def go(self):
        with self.servers.connect(1, 'postgres') as c:
            c.execute(f'CREATE DATABASE {self.database}')
        with self.servers.connect(1, self.database) as c:
            set_up(c)
            generator = Generator(random.Random(self.seed))
            for _ in range(8):
                try:
                    c.execute(generator.create_table())
                except psycopg.Error:
                    pass
        self.servers.cluster('drain')
        for c in self.clients:
            c.start()
        if self.disturber:
            self.disturber.start()
        for c in self.clients:
            c.join()
            self.codes += c.codes
        if self.disturber:
            self.disturber.end.set()
            self.disturber.join()
        faults = [c.fault for c in self.clients if c.fault]
        twice = [value for value, n in collections.Counter(self.values).items() if n > 1]
        if twice:
            faults.append(f'values of sequences given out twice: {" ".join(twice)}')
        if faults:
            raise Difference('\n'.join(faults))
        self.servers.cluster('wait-online')
        self.servers.cluster('drain')
        compare(self.servers, self.database)
        with self.servers.connect(1, 'postgres') as c:
            c.execute(f'DROP DATABASE {self.database} WITH (FORCE)')

    def told(self):
        disturbed = f', {dict(self.disturber.done)}' if self.disturber else ''
        return f'{self.codes.total()} commands, {len(self.values)} values, ' + ', '.join(f'{n} {code}' for code, n in self.codes.most_common(12)) + disturbed


def main():
    p = options(29700)
    p.add_argument('--clients', type=int, default=4, help='on each node')
    p.add_argument('--disturb', action='store_true', help='end sessions, servers and the replicator meanwhile')
    o = p.parse_args()
    rounds(o, lambda servers, seed, until: Round(servers, seed, o.clients, o.disturb))


if __name__ == '__main__':
    main()
