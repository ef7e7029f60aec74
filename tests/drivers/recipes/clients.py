"""The Python recipes of docs/clients.md, by name: see tests/drivers/recipes.pl for what they read and print."""
import asyncio
import logging
import os
import sys

logging.disable()       # pools tell what happens to their connections
HOST, PORTS, DB, USER, POOL = "127.0.0.1", [os.environ["PORT1"], os.environ["PORT2"]], os.environ["DB"], os.environ["DBUSER"], int(os.environ["POOL"])
HOSTS, PORT = f"{HOST},{HOST}", ",".join(PORTS)
OPTIONS = {"target_session_attrs": "read-write", "sslmode": "disable", "gssencmode": "disable", "connect_timeout": 10}
DSN = f"host={HOSTS} port={PORT} dbname={DB} user={USER} " + " ".join(f"{name}={value}" for name, value in OPTIONS.items())


def say(text):
    print(text.replace("\n", " "), flush=True)


def steps(line, execute):
    for step in line.split(";;"):
        if step == "@":
            say("at")
            sys.stdin.readline()
        else:
            execute(step)
    return "its result"


def serve(run):
    while line := sys.stdin.readline().rstrip("\n"):
        try:
            say("done " + run(line))
        except Exception as error:
            say(f"failed {type(error).__name__}: {error}")


def psycopg_client():
    import psycopg
    from psycopg_recipe import run
    serve(lambda line: run(lambda: psycopg.connect(DSN), lambda conn: steps(line, conn.execute)))


def pool_client():
    from psycopg_pool import ConnectionPool
    from psycopg_recipe import run
    with ConnectionPool(DSN, min_size=POOL, open=True) as pool:
        pool.wait()
        serve(lambda line: run(pool.connection, lambda conn: steps(line, conn.execute), pool.drain))


def psycopg2_client():
    import psycopg2
    from psycopg2_recipe import run

    def work(line):
        return lambda conn: steps(line, conn.cursor().execute)
    serve(lambda line: run(lambda: psycopg2.connect(DSN), work(line)))


def sqlalchemy_client():
    from sqlalchemy import create_engine, text
    from sqlalchemy_recipe import run
    hosts = "&".join(f"host={HOST}:{port}" for port in PORTS)
    engine = create_engine(f"postgresql+psycopg2://{USER}@/{DB}?{hosts}", connect_args=OPTIONS, pool_size=POOL)
    for conn in [engine.connect() for _ in range(POOL)]:
        conn.close()
    serve(lambda line: run(engine, lambda session: steps(line, lambda sql: session.execute(text(sql)))))


def django_client():
    from django.conf import settings
    settings.configure(DATABASES={"default": {
        "ENGINE": "django.db.backends.postgresql", "HOST": HOSTS, "PORT": PORT, "NAME": DB, "USER": USER, "OPTIONS": OPTIONS}})
    import django
    django.setup()
    from django.db import connection
    from django_recipe import run

    def execute(sql):
        with connection.cursor() as cursor:
            cursor.execute(sql)
    serve(lambda line: run(lambda: steps(line, execute)))


def asyncpg_client():
    import asyncpg
    from asyncpg_recipe import run

    async def once(line):
        async def work(conn):
            for step in line.split(";;"):
                if step == "@":
                    say("at")
                    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)
                else:
                    await conn.execute(step)
            return "its result"
        pool = await asyncpg.create_pool(host=[HOST, HOST], port=[int(port) for port in PORTS], target_session_attrs="read-write",
                                          database=DB, user=USER, ssl=False, min_size=POOL, max_size=POOL)
        try:
            return await run(pool, work)
        finally:
            pool.terminate()
    serve(lambda line: asyncio.run(once(line)))


globals()[sys.argv[1] + "_client"]()
