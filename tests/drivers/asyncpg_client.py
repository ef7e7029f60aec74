# asyncpg: binary parameters, prepared statements, COPY, LISTEN, many connections (tests/drivers/frameworks.pl).
import asyncio
import datetime
import decimal
import os
import uuid

import asyncpg


def check(good, name):
    print(("ok - " if good else "not ok - ") + name)


async def connect(port):
    return await asyncpg.connect(host="127.0.0.1", port=os.environ[port], user=os.environ["DBUSER"], database=os.environ["DB"],
                                 server_settings={"lockstep.causal_reads": "on"})


async def main():
    one, two = await connect("PORT1"), await connect("PORT2")
    await one.execute("CREATE TABLE k (id serial PRIMARY KEY, t text, n numeric, b bytea, at timestamptz, u uuid, a int[], j jsonb, r int4range)")
    add = await one.prepare("INSERT INTO k (t, n, b, at, u, a, j, r) VALUES ($1, $2, $3, $4, $5, $6, $7, $8) RETURNING id")
    row = ("Ü\n\t\\", decimal.Decimal("1.500"), b"\0\xff", datetime.datetime(1999, 12, 31, tzinfo=datetime.timezone.utc), uuid.uuid4(), [1, None, 3],
           '{"a": "\\u00e4"}', asyncpg.Range(1, 5))
    for _ in range(20):
        await add.fetchval(*row)
    got = await two.fetchrow("SELECT t, n, b, at, u, a, j, r FROM k WHERE id = 20")
    check(tuple(got)[:6] == row[:6], "binary parameters")
    await two.executemany("UPDATE k SET n = n + $2 WHERE id = $1", [(i, i) for i in range(1, 21)])
    check(await one.fetchval("SELECT sum(n) FROM k") == 240, "executemany")
    await two.copy_records_to_table("k", columns=["t", "a"], records=[("c%d" % i, [i]) for i in range(1000)])
    check(await one.fetchval("SELECT count(*) FROM k") == 1020, "COPY in binary")
    heard = asyncio.get_running_loop().create_future()
    await one.add_listener("news", lambda c, pid, channel, what: heard.set_result(what))
    await two.execute("NOTIFY news, 'hello'")
    check(await asyncio.wait_for(heard, 60) == "hello", "LISTEN hears the other node")
    async with two.transaction(isolation="serializable"):
        async with two.transaction():
            await two.execute("INSERT INTO k (t) VALUES ('s')")
        try:
            async with two.transaction():
                await two.execute("INSERT INTO k (id) VALUES (1)")
        except asyncpg.UniqueViolationError:
            pass
        async for r in two.cursor("SELECT id FROM k WHERE t = 'c7' FOR UPDATE"):
            await two.execute("UPDATE k SET t = 'found' WHERE id = $1", r["id"])
    check(await one.fetchval("SELECT count(*) FROM k WHERE t IN ('s', 'found')") == 2, "savepoints and cursors")

    async def work(port):
        done = 0
        c = await connect(port)
        while True:
            try:
                row = await c.fetchrow("DELETE FROM k WHERE id = (SELECT id FROM k ORDER BY random() FOR UPDATE SKIP LOCKED LIMIT 1) RETURNING id")
            except asyncpg.SerializationError:
                continue
            if row is None:
                await c.close()
                return done
            done += 1

    await one.execute("DELETE FROM k WHERE id > 120")
    left = await one.fetchval("SELECT count(*) FROM k")
    done = await asyncio.gather(*[work(p) for p in ("PORT1", "PORT2") * 2])
    check(sum(done) == left, "workers of both nodes take each job once")
    await one.reset()
    await one.close()
    await two.close()


asyncio.run(main())
