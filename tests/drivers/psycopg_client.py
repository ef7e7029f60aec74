"""psycopg 3: binary parameters and results, pipelines, COPY, cursors, savepoints,
errors and retries, notifications. Writes through one node, reads through the other."""
import datetime as dt
import decimal
import ipaddress
import os
import sys
import traceback
import uuid

import psycopg
from psycopg import errors
from psycopg.types.json import Jsonb
from psycopg.types.range import Range

failed = 0


def check(name, condition, why=""):
    global failed
    if not condition:
        failed += 1
    print(f"{'ok' if condition else 'not ok'} - {name}{'' if condition else ': ' + str(why)}", flush=True)


def connect(node, **more):
    conn = psycopg.connect(host="127.0.0.1", port=os.environ[f"PORT{node}"], dbname=os.environ["DB"],
                           user=os.environ["DBUSER"], **more)
    conn.autocommit = True
    # so that the other node has what is read there next
    conn.execute("SET lockstep.commit_wait = applied")
    return conn


def parameters(one, two):
    one.execute("""CREATE TABLE py (id int PRIMARY KEY, i8 int8, n numeric, f float8, t text, b bytea, bo bool, d date,
        ti time, ts timestamp, tz timestamptz, iv interval, u uuid, j jsonb, a int[], ta text[], r int4range, net inet)""")
    east = dt.timezone(dt.timedelta(hours=5, minutes=45))
    values = (2**62, decimal.Decimal("1.500"), 0.1, "ä 'quoted' \\ \n", b"\x00\xff\\", True, dt.date(2020, 2, 29),
              dt.time(12, 34, 56, 789), dt.datetime(2021, 10, 31, 2, 30), dt.datetime(2021, 10, 31, 2, 30, tzinfo=east),
              dt.timedelta(days=-1, seconds=5, microseconds=7), uuid.UUID(int=7), Jsonb({"a": [1, None, "ü"]}), [1, None, 3],
              ["a,b", None, "NULL", ""], Range(1, 5), ipaddress.ip_interface("10.0.0.1/8"))
    names = "i8, n, f, t, b, bo, d, ti, ts, tz, iv, u, j, a, ta, r, net"
    for id, form in enumerate(("%s", "%b", "%t")):
        marks = ", ".join([form] * len(values))
        with one.cursor(binary=id == 1) as cur:
            row = cur.execute(f"INSERT INTO py VALUES (%s, {marks}) RETURNING {names}", (id, *values)).fetchone()
            mine = one.execute(f"SELECT {names} FROM py WHERE id = %s", (id,)).fetchone()
            theirs = two.execute(f"SELECT {names} FROM py WHERE id = %s", (id,), binary=True).fetchone()
            check(f"parameters {form}: RETURNING", row == mine, row)
            check(f"parameters {form}: read on the other node", theirs == mine, theirs)
    two.execute("INSERT INTO py (id) VALUES (%b)", (10,))
    check("NULLs", one.execute(f"SELECT {names} FROM py WHERE id = 10").fetchone() == (None,) * len(values))
    two.execute("UPDATE py SET b = %b, f = %b WHERE id = %b", (b"x" * 100000, float("nan"), 1))
    check("a large binary parameter", one.execute("SELECT length(b), f::text FROM py WHERE id = 1").fetchone() == (100000, "NaN"))


def batches(one, two):
    one.execute("CREATE TABLE many (id int PRIMARY KEY, v text)")
    with one.cursor() as cur:
        cur.executemany("INSERT INTO many VALUES (%s, %s)", [(i, f"v{i}") for i in range(500)])
    check("executemany", two.execute("SELECT count(*), max(v) FROM many").fetchone() == (500, "v99"))
    with one.transaction(), one.cursor() as cur:
        cur.executemany("UPDATE many SET v = %s WHERE id = %s RETURNING id", [("w", i) for i in range(0, 500, 5)], returning=True)
    check("executemany RETURNING in a transaction", two.execute("SELECT count(*) FROM many WHERE v = 'w'").fetchone() == (100,))

    with one.pipeline() as p, one.cursor() as cur:
        for i in range(1000, 1100):
            cur.execute("INSERT INTO many VALUES (%s, 'pipeline')", (i,))
        p.sync()
        cur.execute("SELECT count(*) FROM many WHERE v = 'pipeline'")
        check("a pipeline sees its rows", cur.fetchone() == (100,))
    check("a pipeline", two.execute("SELECT count(*) FROM many WHERE v = 'pipeline'").fetchone() == (100,))
    with one.pipeline():
        with one.transaction():
            for i in range(2000, 2050):
                one.execute("INSERT INTO many VALUES (%s, 'tx')", (i,))
    check("a transaction in a pipeline", two.execute("SELECT count(*) FROM many WHERE v = 'tx'").fetchone() == (50,))
    try:
        with one.pipeline():
            one.execute("INSERT INTO many VALUES (3000, 'fails')")
            one.execute("INSERT INTO many VALUES (1, 'duplicate')")
            one.execute("INSERT INTO many VALUES (3001, 'fails')")
        check("an error in a pipeline", False, "no error")
    except errors.UniqueViolation:
        check("an error in a pipeline", True)
    mine, theirs = (c.execute("SELECT array_agg(id ORDER BY id) FROM many WHERE id >= 3000").fetchone() for c in (one, two))
    check("what it left is the same", mine == theirs, (mine, theirs))


def copies(one, two):
    one.execute("CREATE TABLE cop (id int PRIMARY KEY, n numeric, t text, ts timestamptz)")
    now = dt.datetime.now(dt.timezone.utc)
    rows = [(i, decimal.Decimal(i) / 8, None if i % 7 == 0 else f"tab\t{i}\n\\", now) for i in range(3000)]
    with one.cursor() as cur:
        with cur.copy("COPY cop FROM STDIN") as copy:
            for r in rows[:1000]:
                copy.write_row(r)
        with cur.copy("COPY cop FROM STDIN WITH (FORMAT binary)") as copy:
            copy.set_types(["int4", "numeric", "text", "timestamptz"])
            for r in rows[1000:]:
                copy.write_row(r)
    with two.cursor() as cur:
        with cur.copy("COPY (SELECT * FROM cop ORDER BY id) TO STDOUT WITH (FORMAT binary)") as copy:
            copy.set_types(["int4", "numeric", "text", "timestamptz"])
            got = list(copy.rows())
    check("COPY in and out, text and binary", got == rows, len(got))
    try:
        with two.cursor() as cur, cur.copy("COPY cop FROM STDIN") as copy:
            copy.write_row((5000, 1, "x", now))
            raise ZeroDivisionError
    except (ZeroDivisionError, errors.QueryCanceled):
        pass
    check("COPY given up", one.execute("SELECT count(*) FROM cop").fetchone() == (3000,))


def transactions(one, two):
    one.execute("CREATE TABLE acc (id int PRIMARY KEY, v int)")
    one.execute("INSERT INTO acc VALUES (1, 0), (2, 0)")
    with one.transaction():
        one.execute("UPDATE acc SET v = 1 WHERE id = 1")
        try:
            with one.transaction():
                one.execute("UPDATE acc SET v = 2 WHERE id = 1")
                one.execute("INSERT INTO acc VALUES (1, 1)")
        except errors.UniqueViolation:
            one.execute("INSERT INTO acc VALUES (3, 3)")
        with one.transaction() as tx:
            one.execute("DELETE FROM acc")
            raise psycopg.Rollback(tx)
    check("savepoints", two.execute("SELECT array_agg(v ORDER BY id) FROM acc").fetchone() == ([1, 0, 3],))

    retried = []

    def add(conn, n):
        while True:
            try:
                with conn.transaction():
                    conn.execute("UPDATE acc SET v = v + %s WHERE id = 2", (n,))
                return
            except errors.SerializationFailure as e:
                retried.append(e)

    one.execute("BEGIN")
    two.execute("BEGIN")
    one.execute("UPDATE acc SET v = v + 1 WHERE id = 2")
    lost = None
    try:
        two.execute("UPDATE acc SET v = v + 10 WHERE id = 2")
        one.execute("COMMIT")
        two.execute("COMMIT")
    except errors.SerializationFailure as e:
        lost = e
    two.execute("ROLLBACK")
    check("of two writers one gets SerializationFailure", lost is not None and lost.sqlstate == "40001", lost)
    add(two, 10)
    add(one, 100)
    check("and succeeds when it retries", two.execute("SELECT v FROM acc WHERE id = 2").fetchone() == (111,))

    with two.transaction():
        with two.cursor(name="server side") as cur:
            cur.execute("SELECT id FROM many ORDER BY id")
            cur.itersize = 50
            n = 0
            for (id,) in cur:
                n += 1
                if id % 100 == 0:
                    two.execute("UPDATE many SET v = 'cursor' WHERE id = %s", (id,))
    check("a server-side cursor while writing", n == 650 and one.execute("SELECT count(*) FROM many WHERE v = 'cursor'").fetchone() == (7,), n)
    other = connect(1)
    other.autocommit = False
    try:
        other.tpc_begin("xid")
        other.execute("DELETE FROM acc")
        other.tpc_prepare()
        check("two-phase commit is refused", False, "no error")
    except errors.FeatureNotSupported:
        check("two-phase commit is refused", True)
    other.close()


def prepared(one, two):
    for i in range(20):
        one.execute("INSERT INTO many VALUES (%s, 'prepared')", (4000 + i,), prepare=True)
    two.execute("ALTER TABLE many ADD w int DEFAULT 5")
    for i in range(20):
        one.execute("INSERT INTO many VALUES (%s, 'prepared')", (4100 + i,), prepare=True)
    check("prepared before and after DDL of the other node",
          two.execute("SELECT count(*), sum(w) FROM many WHERE v = 'prepared'").fetchone() == (40, 200))


def notifications(one, two):
    two.execute("LISTEN ch")
    one.execute("SELECT pg_notify('ch', %s)", ("hello",))
    got = next(two.notifies())
    check("a notification of the other node", (got.channel, got.payload) == ("ch", "hello"), got)


def main():
    one, two = connect(1), connect(2)
    for part in (parameters, batches, copies, transactions, prepared, notifications):
        try:
            part(one, two)
        except Exception:
            traceback.print_exc()
            check(part.__name__, False, sys.exc_info()[1])
            one.close()
            two.close()
            one, two = connect(1), connect(2)
    sys.exit(1 if failed else 0)


main()
