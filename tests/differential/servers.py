"""The servers of the differential tests, what makes two nodes equal, and the loop of seeds."""
import argparse
import difflib
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time

import psycopg

from commands import SETUP

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


# What may differ between the configurations of nodes, and means something else to many commands.
OTHER_SETTINGS = {
    'array_nulls': 'off', 'transform_null_equals': 'on', 'standard_conforming_strings': 'off', 'backslash_quote': 'on', 'quote_all_identifiers': 'on',
    'DateStyle': "'SQL, DMY'", 'IntervalStyle': 'sql_standard', 'TimeZone': "'Asia/Kolkata'", 'bytea_output': 'escape', 'xmloption': 'document', 'xmlbinary': 'hex',
    'extra_float_digits': '-5', 'lc_monetary': 'C', 'search_path': "'s2, public'", 'check_function_bodies': 'off', 'default_toast_compression': 'lz4',
    'default_transaction_isolation': "'repeatable read'", 'row_security': 'off', 'plan_cache_mode': 'force_custom_plan', 'enable_indexscan': 'off', 'enable_hashagg': 'off',
    'constraint_exclusion': 'on', 'work_mem': '64kB', 'maintenance_work_mem': '1MB', 'statement_timeout': '25s', 'lock_timeout': '15s',
    'idle_in_transaction_session_timeout': '60s', 'gin_pending_list_limit': '64kB', 'synchronize_seqscans': 'off', 'default_statistics_target': '1',
    'track_functions': 'all', 'log_statement': 'all', 'createrole_self_grant': "'set, inherit'", 'event_source': 'x', 'lo_compat_privileges': 'on',
    'autovacuum_naptime': '1s', 'vacuum_freeze_min_age': '0',
}
SERVER_SETTINGS = ('event_source', 'autovacuum_naptime')


class Difference(Exception):
    pass


def shell(*command, **kw):
    return subprocess.run(command, capture_output=True, text=True, **kw)


class Servers:
    """A cluster, and a plain server on a port beside its nodes'."""

    def __init__(self, port, nodes=2, replicators=1, settings=False):
        self.nodes = range(1, nodes + 1)
        self.replicators = range(1, replicators + 1)
        self.other_settings = []        # of all nodes but the first
        self.dir = tempfile.mkdtemp(prefix='lockstep-differential-', dir='/dev/shm')
        if os.geteuid() == 0:
            shutil.chown(self.dir, 'postgres')
        if settings:
            self.write_settings()
        self.cluster('up', '--nodes', str(nodes), *(['--replicators', str(replicators)] if replicators > 1 else []), '--port', str(port), '--fast',
                     *(['--conf', f'{self.dir}/settings'] if settings else []))
        self.env = dict(shlex.split(line)[0].split('=', 1) for line in open(f'{self.dir}/c/cluster.env') if '=' in line)
        self.bin = pathlib.Path(self.env['REPLICATOR_BINARY']).parent
        self.plain_port = port + 9
        self.plain = f'{self.dir}/plain'
        self.as_owner(f'{self.bin}/initdb', '-D', self.plain, '-A', 'trust', '-U', 'postgres', '-N', '--no-locale', '-E', 'UTF8')
        with open(f'{self.plain}/postgresql.conf', 'a') as f:
            f.write(f"port = {self.plain_port}\nlisten_addresses = '127.0.0.1'\nunix_socket_directories = ''\nfsync = off\n")
        self.as_owner(f'{self.bin}/pg_ctl', '-D', self.plain, '-l', f'{self.dir}/plain.log', '-w', 'start')

    def write_settings(self):
        bindir = shell(os.environ.get('PG_CONFIG', 'pg_config'), '--bindir').stdout.strip()
        known = {line.split('\t')[0] for line in shell(f'{bindir}/postgres', '--describe-config').stdout.split('\n')}
        with open(f'{self.dir}/settings', 'w') as f:
            f.write(f"include_if_exists = '{self.dir}/settings@NODE@'\n")
        for node in self.nodes[1:]:
            with open(f'{self.dir}/settings{node}', 'w') as f:
                f.writelines(f'{name} = {value}\n' for name, value in OTHER_SETTINGS.items() if name in known)
        self.other_settings = [f'{name}={value}' for name, value in OTHER_SETTINGS.items() if name in known and name not in SERVER_SETTINGS]

    def cluster(self, command, *args):
        r = shell(str(ROOT / 'tests/cluster'), command, '--dir', f'{self.dir}/c', *args)
        if r.returncode != 0:
            raise SystemExit(f'tests/cluster {command}: {r.stdout}{r.stderr}')

    def as_owner(self, *command):
        if os.geteuid() == 0:
            command = ('runuser', '-u', 'postgres', '--') + command
        r = shell(*command, cwd='/')
        if r.returncode != 0:
            raise SystemExit(f'{command}: {r.stdout}{r.stderr}')

    def port(self, where):
        return self.plain_port if where == 'plain' else int(self.env[f'NODE{where}_PORT'])

    def connect(self, where, database, settings=()):
        options = ' '.join('-c ' + setting.replace("'", '').replace(' ', '\\ ') for setting in settings)
        return psycopg.connect(f'host=127.0.0.1 port={self.port(where)} user=postgres dbname={database}', options=options, autocommit=True, prepare_threshold=None)

    def ctl(self, *args):
        return shell('bash', '-c', f'exec {self.env["CTL"]} "$@"', 'ctl', *args, cwd='/')

    def dump(self, where, database):
        r = shell(str(self.bin / 'pg_dump'), '--schema-only', '-h', '127.0.0.1', '-p', str(self.port(where)), '-U', 'postgres', '-N', 'lockstep', database,
                  env={**os.environ, 'PGOPTIONS': '-c quote_all_identifiers=off -c standard_conforming_strings=on -c TimeZone=UTC -c bytea_output=hex'})
        if r.returncode != 0:
            raise Difference(f'pg_dump fails: {r.stderr}')
        return re.sub(r'^\\(un)?restrict .*$|^-- (Started|Completed) on.*$', '', r.stdout, flags=re.M)

    def down(self):
        self.as_owner(str(self.bin / 'pg_ctl'), '-D', self.plain, '-m', 'immediate', 'stop')
        self.cluster('down')
        shutil.rmtree(self.dir, ignore_errors=True)


def dump_difference(servers, database):
    first, *others = [servers.dump(where, database).split('\n') for where in servers.nodes]
    return '\n'.join('\n'.join(difflib.unified_diff(first, other, 'node 1', 'another', n=4, lineterm='')) for other in others).strip()


def set_up(connection):
    for command in SETUP:
        try:
            connection.execute(command)
        except psycopg.errors.DuplicateObject:
            pass        # a role


def compare(servers, database):
    """Difference, unless the nodes are equal."""
    difference = dump_difference(servers, database)
    if difference:
        raise Difference(f'the schema differs:\n{difference}')
    r = servers.ctl('verify')
    if r.returncode != 0:
        raise Difference(f'lockstepctl verify: {r.stdout}{r.stderr}')


def options(port):
    p = argparse.ArgumentParser()
    p.add_argument('--seconds', type=float, default=180)
    p.add_argument('--seed', type=int, default=int(time.time()) % 1000000)
    p.add_argument('--rounds', type=int, default=1000000)
    p.add_argument('--nodes', type=int, default=2)
    p.add_argument('--replicators', type=int, default=1)
    p.add_argument('--settings', action='store_true', help='all nodes but the first have other settings in postgresql.conf')
    p.add_argument('--port', type=int, default=port)
    p.add_argument('--log', help='file for the commands of a round that fails (default: printed)')
    p.add_argument('--keep', action='store_true', help='leave the servers of a difference running')
    return p


def rounds(o, make):
    """make(servers, seed, until) is a round: go() raises Difference; log, told().  Exits with 1 at the first difference."""
    servers = Servers(o.port, o.nodes, o.replicators, o.settings)
    until = time.monotonic() + o.seconds
    failed = False
    seed = o.seed
    try:
        while time.monotonic() < until and seed < o.seed + o.rounds and not failed:
            r = make(servers, seed, until)
            try:
                r.go()
                print(f'ok - seed {seed}: {r.told()}')
            except Difference as e:
                failed = True
                if o.log:
                    pathlib.Path(o.log).write_text('\n'.join(r.log))
                else:
                    print('\n'.join(r.log))
                print(f'not ok - seed {seed} (--seed {seed} --rounds 1): {e}')
            seed += 1
            sys.stdout.flush()
    finally:
        if failed and o.keep:
            print(f'left running: {servers.dir}')
        else:
            servers.down()
    sys.exit(1 if failed else 0)
