"""Does the cluster ever stand still?  Loads that conflict, and the longest pause between two commits.

  run.py [--seconds N] [--nodes 2,3] [--clients 3,16] [--levels rc,rr,ser] [--orders default,optimistic,queued]
         [--loads histories,stress] [--sigstop] [--bound SECONDS] [--port BASE] [--seed N]

Each combination runs for --seconds on a cluster of its own number of nodes.  The load
"histories" is that of tests/histories, whose checker reads the result; "stress" is that of
tests/tap/conflicts/431_fairness.pl: streams of small transactions on few rows, against updates of a
whole table, row by row, after long reads, and DDL.  Every client always wants to commit, so a
moment in which nobody commits anywhere is a pause; the longest one is printed, and one above
--bound fails, as do nodes that differ.  With --sigstop, backends, apply sessions and the
replicator are stopped at random, half a second at most.  A pause above the bound prints
what waits for what (lockstepctl waits, pg_stat_activity).  Exit code 1: something failed.
"""
import argparse
import collections
import os
import pathlib
import random
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

import psycopg

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / 'histories'))
import run as histories                 # noqa: E402
from checker import check               # noqa: E402

LEVELS = {'rc': 'READ COMMITTED', 'rr': 'REPEATABLE READ', 'ser': 'SERIALIZABLE'}
ORDERS = {
    'default': (),
    'optimistic': ("SET lockstep.update_order = 'optimistic'", 'SET lockstep.queue_after = 0'),
    'queued': ("SET lockstep.update_order = 'queued'",),
}
CONFLICTS = ('40001', '40P01')
HOT = 20                                # rows that the streams write
ROWS = 2000
DRAIN = 60                              # seconds in which clients must have ended


class Cluster:
    def __init__(self, nodes, port):
        self.dir = tempfile.mkdtemp(prefix='lockstep-liveness-', dir='/tmp')
        os.chmod(self.dir, 0o755)
        self.home = self.dir + '/c'
        self.call('up', '--nodes', str(nodes), '--port', str(port), '--fast', '--db', 'app')
        lines = (' '.join(shlex.split(line)) for line in open(self.home + '/cluster.env'))
        self.env = dict(line.split('=', 1) for line in lines if '=' in line)
        self.nodes = range(1, nodes + 1)

    def call(self, command, *args):
        subprocess.run([str(HERE.parent / 'cluster'), command, '--dir', self.home, *args], check=True, stdout=subprocess.DEVNULL)

    def conninfo(self, n):
        return f"host=127.0.0.1 port={self.env[f'NODE{n}_PORT']} user={self.env['DBUSER']} dbname={self.env['DBNAME']}"

    def connect(self, n):
        return psycopg.connect(self.conninfo(n), autocommit=True, connect_timeout=20)

    def ctl(self, *args):
        return subprocess.run(['bash', '-c', f'cd /; exec {self.env["CTL"]} "$@"', 'ctl', *args], capture_output=True, text=True)

    def children(self):
        """Processes of users and of the replicator on all nodes."""
        for n in self.nodes:
            with open(self.env[f'NODE{n}_PGDATA'] + '/postmaster.pid') as f:
                postmaster = f.readline().strip()
            with open(f'/proc/{postmaster}/task/{postmaster}/children') as f:
                pids = f.read().split()
            for pid in pids:
                try:
                    with open(f'/proc/{pid}/cmdline') as f:
                        if f' {self.env["DBNAME"]} ' in f.read():
                            yield int(pid)
                except OSError:
                    pass

    def replicator(self):
        with open(self.env['REPLICATOR_PIDFILE']) as f:
            return int(f.read().split()[0])

    def down(self):
        self.call('down')
        shutil.rmtree(self.dir, ignore_errors=True)


class Pulse:
    """When somebody committed something, and what failed."""

    def __init__(self):
        self.lock = threading.Lock()
        self.commits = collections.Counter()
        self.errors = collections.Counter()
        self.last = time.monotonic()
        self.longest = 0.0

    def beat(self, what):
        with self.lock:
            now = time.monotonic()
            self.commits[what] += 1
            self.longest = max(self.longest, now - self.last)
            self.last = now

    def failed(self, what, sqlstate):
        with self.lock:
            self.errors[what, sqlstate] += 1

    def silent(self):
        with self.lock:
            return time.monotonic() - self.last

    def end(self):
        """The last pause lasts until now."""
        with self.lock:
            self.longest = max(self.longest, time.monotonic() - self.last)


class Stopper(threading.Thread):
    """Stops a process at random, for half a second at most."""

    def __init__(self, cluster, until, seed):
        super().__init__(daemon=True)
        self.cluster, self.until, self.random = cluster, until, random.Random(seed)

    def run(self):
        while time.monotonic() < self.until:
            time.sleep(self.random.uniform(0.02, 0.3))
            pid = self.random.choice([*self.cluster.children(), self.cluster.replicator()])
            try:
                os.kill(pid, signal.SIGSTOP)
                try:
                    time.sleep(self.random.uniform(0.05, 0.5) if self.random.random() < 0.7 else self.random.uniform(0.001, 0.02))
                finally:
                    os.kill(pid, signal.SIGCONT)
            except ProcessLookupError:
                pass


# ---------- the load of 431


def stream(c, r):
    c.execute('UPDATE stock SET v = v + 1 WHERE id = %s', (r.randint(1, HOT),))


def partitioned(c, r):
    c.execute('UPDATE part SET v = v + 1 WHERE id = %s', (r.randint(1, HOT),))


def whole_table(c, r):
    c.execute('UPDATE stock SET v = v + 2')


def one_by_one(c, r):
    c.execute('BEGIN')
    for i in r.sample(range(1, 2 * HOT), HOT):
        c.execute('UPDATE stock SET v = v + 1 WHERE id = %s', (i,))
    c.execute('COMMIT')


def read_first(c, r):
    c.execute('BEGIN')
    c.execute('SELECT sum(v) FROM stock').fetchone()
    c.execute('SELECT pg_sleep(0.2)')
    c.execute('UPDATE stock SET v = v + 1 WHERE id < 10')
    c.execute('COMMIT')


def summary(c, r):
    c.execute('BEGIN')
    c.execute('INSERT INTO summary (v) SELECT sum(v) FROM stock')
    c.execute('COMMIT')


def definition(c, r):
    time.sleep(r.uniform(0, 2))
    c.execute(f'ALTER TABLE {r.choice(("stock", "part"))} ALTER v SET STATISTICS {r.randint(1, 100)}')


STRESS = (whole_table, stream, one_by_one, stream, partitioned, read_first, summary, stream)
STRESS_SCHEMA = f'''
DROP TABLE IF EXISTS stock, part, summary;
CREATE TABLE stock (id int PRIMARY KEY, v bigint NOT NULL);
INSERT INTO stock SELECT i, 0 FROM generate_series(1, {ROWS}) i;
CREATE TABLE part (id int PRIMARY KEY, v bigint) PARTITION BY HASH (id);
CREATE TABLE part0 PARTITION OF part FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE part1 PARTITION OF part FOR VALUES WITH (MODULUS 2, REMAINDER 1);
INSERT INTO part SELECT i, 0 FROM generate_series(1, {HOT}) i;
CREATE TABLE summary (id int PRIMARY KEY GENERATED ALWAYS AS IDENTITY, v numeric);
'''


class Worker(threading.Thread):
    def __init__(self, cluster, n, i, setup, work, pulse, until, seed):
        super().__init__(daemon=True, name=f'n{n}c{i} {work.__name__}')
        self.cluster, self.n, self.setup, self.work = cluster, n, setup, work
        self.pulse, self.until = pulse, until
        self.random = random.Random(f'{seed} {n} {i}')
        self.failure = None

    def run(self):
        try:
            with self.cluster.connect(self.n) as c:
                for command in self.setup:
                    c.execute(command)
                while time.monotonic() < self.until:
                    self.once(c)
        except psycopg.Error as e:
            self.failure = e

    def once(self, c):
        try:
            self.work(c, self.random)
            self.pulse.beat(self.work.__name__)
        except psycopg.Error as e:
            self.pulse.failed(self.work.__name__, e.sqlstate)
            if e.sqlstate not in CONFLICTS:
                raise
            c.execute('ROLLBACK')


def stress(cluster, options, setup, pulse, until):
    with cluster.connect(1) as c:
        c.execute(STRESS_SCHEMA)
    cluster.call('drain')
    workers = [Worker(cluster, n, i, setup, STRESS[i % len(STRESS)], pulse, until, options.seed)
               for n in cluster.nodes for i in range(options.number)]
    workers.append(Worker(cluster, 1, options.number, setup, definition, pulse, until, options.seed))
    pulse.beat('start')
    for w in workers:
        w.start()
    return workers, lambda: []


# ---------- the load of tests/histories


class HistoryClient(histories.Client):
    def __init__(self, name, conninfo, options, clock, until, setup, pulse):
        super().__init__(name, conninfo, options, clock, until)
        self.setup, self.pulse = setup, pulse

    def connect(self):
        super().connect()
        for command in self.setup:
            self.connection.execute(command)

    def finished(self, t):
        if t.outcome == 'committed':
            self.pulse.beat('transaction')

    def failed(self, t, e):
        self.pulse.failed('transaction', e.sqlstate)
        super().failed(t, e)


def history(cluster, options, setup, pulse, until):
    options.level, options.strict, options.tolerant = LEVELS[options.level_name], False, False
    options.nodes = [cluster.conninfo(n) for n in cluster.nodes]
    histories.patiently(options, histories.prepare)
    clock = histories.Clock()
    workers = [HistoryClient(f'n{n}c{i}', cluster.conninfo(n), options, clock, until, setup, pulse)
               for n in cluster.nodes for i in range(options.number)]
    pulse.beat('start')
    for w in workers:
        w.start()

    def problems():
        final = histories.patiently(options, histories.read_everything)
        return check([t for w in workers for t in w.history] + [final], options.level, False)
    return workers, problems


LOADS = {'histories': history, 'stress': stress}

# ---------- one combination


def show_waits(cluster, seconds):
    print(f'    nothing committed for {seconds:.1f} s:')
    print(cluster.ctl('waits').stdout)
    for n in cluster.nodes:
        with cluster.connect(n) as c:
            for row in c.execute("SELECT pid, application_name, state, wait_event_type, wait_event, now() - state_change, pg_blocking_pids(pid), "
                                 "left(query, 60) FROM pg_stat_activity WHERE backend_type = 'client backend' AND state <> 'idle'"):
                print(f'    n{n}', *row)
    sys.stdout.flush()


def watch(cluster, pulse, until, bound):
    shown = False
    while time.monotonic() < until:
        time.sleep(0.1)
        silent = pulse.silent()
        if silent > bound and not shown:
            show_waits(cluster, silent)
        shown = silent > bound


def differences(cluster):
    cluster.call('drain')
    r = cluster.ctl('verify')
    return [] if r.returncode == 0 else [r.stdout + r.stderr]


def combination(cluster, options, load, order):
    pulse = Pulse()
    until = time.monotonic() + options.seconds
    setup = (f"SET default_transaction_isolation = '{LEVELS[options.level_name].lower()}'", *ORDERS[order])
    workers, problems = LOADS[load](cluster, options, setup, pulse, until)
    stopper = Stopper(cluster, until, options.seed) if options.sigstop else None
    if stopper:
        stopper.start()
    watch(cluster, pulse, until, options.bound)
    pulse.end()
    found = []
    patience = time.monotonic() + DRAIN
    for w in workers:
        w.join(max(0, patience - time.monotonic()))
        if w.is_alive():
            found.append(f'{w.name} hangs')
        elif w.failure is not None:
            found.append(f'{w.name}: {w.failure}')
    if stopper:
        stopper.join()
    if pulse.longest > options.bound:
        found.append(f'nothing committed for {pulse.longest:.1f} s')
    if not found:
        found = problems()[:3] + differences(cluster)
    errors = ', '.join(f'{what} {sqlstate} {n}' for (what, sqlstate), n in sorted(pulse.errors.items(), key=str))
    print(f'{"ok" if not found else "not ok"} - {len(cluster.nodes)} nodes, {options.number} clients, {options.level_name}, {order}, {load}'
          f'{", SIGSTOP" if options.sigstop else ""}: {pulse.commits.total()} commits, longest pause {pulse.longest:.2f} s; {errors or "no errors"}')
    for f in found:
        print(f'    {f}')
    sys.stdout.flush()
    return not found


def names(text, known, what):
    chosen = text.split(',')
    for c in chosen:
        if c not in known:
            sys.exit(f'run.py: there is no {what} "{c}"; there are {", ".join(known)}')
    return chosen


def main():
    p = argparse.ArgumentParser()
    p.add_argument('--seconds', type=float, default=600)
    p.add_argument('--nodes', default='2,3')
    p.add_argument('--clients', default='3,16')
    p.add_argument('--levels', default=','.join(LEVELS))
    p.add_argument('--orders', default=','.join(ORDERS))
    p.add_argument('--loads', default=','.join(LOADS))
    p.add_argument('--sigstop', action='store_true')
    p.add_argument('--bound', type=float, default=5)
    p.add_argument('--port', type=int, default=17600)
    p.add_argument('--seed', type=int, default=int(time.time()))
    options = p.parse_args()
    levels, orders = names(options.levels, LEVELS, 'level'), names(options.orders, ORDERS, 'order')
    loads = names(options.loads, LOADS, 'load')
    counts = [int(n) for n in options.nodes.split(',')]
    clients = [int(n) for n in options.clients.split(',')]
    passed = failed = 0
    print(f'seed {options.seed}')
    for n in counts:
        cluster = Cluster(n, options.port)
        for options.number in clients:
            for options.level_name in levels:
                for order in orders:
                    for load in loads:
                        good = combination(cluster, options, load, order)
                        passed, failed = passed + good, failed + (not good)
                        if not good:        # what hangs must not harm the next one
                            cluster.down()
                            cluster = Cluster(n, options.port)
        cluster.down()
    print(f'{passed} passed, {failed} failed')
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main())
