"""Random transactions on all nodes at once, their history, and what the checker says.

  run.py --level LEVEL --seconds N [--check LEVEL] [--strict] [--tolerant] [--clients N] [--seed N] CONNINFO...

Each CONNINFO is a node.  Lists are rows whose text grows by append; registers are rows
that are read and replaced.  A few keys are in use at a time, so that transactions meet,
and give way to new ones, so that lists stay short.  At the end one transaction reads
everything on the first node, when all nodes have applied it all.  Exit code 1: something
was found, 2: it could not run.
"""
import argparse
import collections
import random
import sys
import threading
import time

import psycopg

from checker import LEVELS, Tx, check

ABORTED = ('40001', '40P01')
ACTIVE = 4                      # keys in use at a time
RETIRE = 60                     # transactions after which a key gives way

SCHEMA = '''
CREATE TABLE IF NOT EXISTS history_list (k int PRIMARY KEY, v text NOT NULL);
CREATE TABLE IF NOT EXISTS history_register (k int PRIMARY KEY, v int);
'''


class Clock:
    """Hands out keys and values."""

    def __init__(self):
        self.lock = threading.Lock()
        self.begun = 0
        self.values = 0

    def next_keys(self):
        with self.lock:
            self.begun += 1
            base = self.begun // RETIRE
        return range(base, base + ACTIVE)

    def value(self):
        with self.lock:
            self.values += 1
            return self.values


def to_list(text):
    return [int(v) for v in text.split(',')] if text else []


class Client(threading.Thread):
    def __init__(self, name, conninfo, options, clock, until):
        super().__init__(name=name, daemon=True)
        self.conninfo, self.options, self.clock, self.until = conninfo, options, clock, until
        self.random = random.Random(f'{options.seed} {name}')
        self.history = []
        self.failure = None
        self.incarnation = 0

    def run(self):
        try:
            while time.monotonic() < self.until:
                try:
                    self.connect()
                except psycopg.OperationalError:
                    time.sleep(0.1)     # the node is down for a while
                    continue
                self.work()
        except Exception as e:      # told by the main thread
            self.failure = e

    def connect(self):
        self.incarnation += 1
        self.connection = psycopg.connect(self.conninfo, autocommit=True, connect_timeout=20)
        self.connection.execute(f"SET default_transaction_isolation = '{self.options.level.lower()}'")
        if self.options.strict:
            self.connection.execute('SET lockstep.causal_reads = on')

    def work(self):
        """Until it is time, or the connection is lost."""
        while time.monotonic() < self.until and not self.connection.closed:
            t = Tx(f'{self.name}.{len(self.history)}', f'{self.name}/{self.incarnation}', [])
            self.history.append(t)
            keys = self.clock.next_keys()
            t.began = time.monotonic()
            t.outcome = 'aborted'
            try:
                self.connection.execute('BEGIN')
                (self.register_operations if self.random.random() < 0.3 else self.list_operations)(t, keys)
                if self.random.random() < 0.03:
                    self.connection.execute('ROLLBACK')
                else:
                    t.outcome = 'unknown'
                    self.connection.execute('COMMIT')
                    t.outcome = 'committed'
            except psycopg.Error as e:
                self.failed(t, e)
            t.ended = time.monotonic()
            self.finished(t)

    def finished(self, t):
        """For tests that count; tests/liveness does."""

    def failed(self, t, e):
        if e.sqlstate in ABORTED:
            t.outcome = 'aborted'
        elif self.options.tolerant and not self.connection.closed:
            if e.sqlstate != '08007':
                t.outcome = 'aborted'
        elif e.sqlstate not in (None, '08007', '57P03', '57P01', '57P02', '57P05', '08006', '53100', '58030'):
            raise e
        else:
            time.sleep(0.05)
        if not self.connection.closed:
            try:
                self.connection.execute('ROLLBACK')
            except psycopg.OperationalError:
                pass

    def list_operations(self, t, keys):
        for _ in range(self.random.randint(1, 4)):
            key = self.random.choice(keys)
            what = self.random.random()
            if what < 0.45:
                value = self.clock.value()
                t.ops.append(('append', key, value))
                self.connection.execute(
                    'INSERT INTO history_list VALUES (%s, %s) ON CONFLICT (k) DO UPDATE '
                    "SET v = history_list.v || ',' || excluded.v", (key, str(value)))
            elif what < 0.8:
                row = self.connection.execute('SELECT v FROM history_list WHERE k = %s', (key,)).fetchone()
                t.ops.append(('list', key, to_list(row[0] if row else '')))
            else:
                rows = dict(self.connection.execute(
                    'SELECT k, v FROM history_list WHERE k BETWEEN %s AND %s', (keys[0], keys[-1])).fetchall())
                for k in keys:
                    t.ops.append(('list', k, to_list(rows.get(k, ''))))

    def register_operations(self, t, keys):
        """Read some, replace one of them."""
        chosen = self.random.sample(list(keys), 2)
        there = set()
        for key in chosen:
            row = self.connection.execute('SELECT v FROM history_register WHERE k = %s', (key,)).fetchone()
            t.ops.append(('read', key, row[0] if row else None))
            if row:
                there.add(key)
        if self.random.random() < 0.7:
            key = chosen[0]
            value = self.clock.value()
            t.ops.append(('write', key, value))
            if key in there:
                self.connection.execute('UPDATE history_register SET v = %s WHERE k = %s', (value, key))
            else:
                self.connection.execute('INSERT INTO history_register VALUES (%s, %s) ON CONFLICT (k) DO UPDATE '
                                        'SET v = excluded.v', (key, value))


def everything(connection):
    """The last transaction of a history."""
    t = Tx('final', 'final', [], began=time.monotonic())
    for k, v in connection.execute('SELECT k, v FROM history_list ORDER BY k').fetchall():
        t.ops.append(('list', k, to_list(v)))
    t.ended = time.monotonic()
    return t


def patiently(options, work, patience=240):
    """Connections to all nodes, and what work(connections) says; nodes that are down come back."""
    until = time.monotonic() + patience
    while True:
        try:
            return work([psycopg.connect(c, autocommit=True, connect_timeout=10) for c in options.nodes])
        except psycopg.OperationalError:
            if time.monotonic() > until:
                raise
            time.sleep(0.2)


def wait_for_all(connections):
    furthest = max(c.execute('SELECT lockstep.applied_seq()').fetchone()[0] for c in connections)
    for c in connections:
        if not c.execute("SELECT lockstep.wait_for(%s, '60s')", (furthest,)).fetchone()[0]:
            sys.exit('a node does not apply what others have')


def prepare(connections):
    connections[0].execute(SCHEMA)
    connections[0].execute('DELETE FROM history_list')
    connections[0].execute('DELETE FROM history_register')
    wait_for_all(connections)


def read_everything(connections):
    wait_for_all(connections)
    return everything(connections[0])


def record(options):
    patiently(options, prepare)
    clock = Clock()
    until = time.monotonic() + options.seconds
    clients = [Client(f'n{n + 1}c{i}', conninfo, options, clock, until)
               for n, conninfo in enumerate(options.nodes) for i in range(options.clients)]
    for c in clients:
        c.start()
    for c in clients:
        c.join(options.seconds + 120)
        if c.is_alive() or c.failure is not None:
            sys.exit(f'client {c.name} failed: {c.failure or "it hangs"}')
    return [t for c in clients for t in c.history] + [patiently(options, read_everything)]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--level', choices=LEVELS, required=True)
    parser.add_argument('--check', choices=LEVELS)
    parser.add_argument('--strict', action='store_true')
    parser.add_argument('--tolerant', action='store_true', help='any error may come; but for 08007 it means a rollback')
    parser.add_argument('--seconds', type=float, default=5)
    parser.add_argument('--clients', type=int, default=2)
    parser.add_argument('--seed', type=int, default=int(time.time()))
    parser.add_argument('nodes', nargs='+')
    options = parser.parse_args()
    try:
        history = record(options)
    except (psycopg.Error, SystemExit) as e:
        print(f'could not run: {e}')
        return 2
    counts = {o: sum(t.outcome == o for t in history) for o in ('committed', 'aborted', 'unknown')}
    print(f'{options.level}, seed {options.seed}: ' + ', '.join(f'{n} {o}' for o, n in counts.items()))
    problems = check(history, options.check or options.level, options.strict)
    for p in problems[:5]:
        print(p)
    kinds = collections.Counter(p.split(':')[0] for p in problems)
    print('kinds: ' + ', '.join(f'{n} {kind}' for kind, n in sorted(kinds.items())))
    print(f'{len(problems)} problems at {options.check or options.level}{" (strict)" if options.strict else ""}')
    return 1 if problems else 0


if __name__ == '__main__':
    sys.exit(main())
