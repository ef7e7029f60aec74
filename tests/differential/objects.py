"""Random commands on what is not a table: sequences, types, routines, schemas, roles, and what runs within or around others."""

SEQUENCES = ['u1', 'u2', 'u3']      # never dropped, nor set back: no value comes twice
UNIQUE_IN = ['public', 's1']


class Objects:
    def __init__(self, generator):
        self.g = generator

    def command(self):
        g = self.g
        kinds = [self.sequences, self.types, self.routines, self.schemas, self.roles, self.tables, self.server_objects, self.nested, self.copies]
        if g.at_once:
            kinds += [self.unique, self.unique, self.cursors]
        return g.one(kinds)()

    def quoted(self, command):
        return command.replace("'", "''")

    # ---------- kinds

    def unique(self):
        """Sequences change their names and places while values are taken; exchange() is a transaction of its own."""
        g = self.g
        name, other = f'{g.one(UNIQUE_IN)}.{g.one(SEQUENCES)}', g.one(SEQUENCES)
        return g.one([*[f"SELECT nextval('{name}') FROM generate_series(1, {g.one([1, 1, 3, 40])})"] * 4, f'ALTER SEQUENCE {name} RENAME TO {other}', f'ALTER SEQUENCE {name} SET SCHEMA {g.one(UNIQUE_IN)}',
                      f'ALTER SEQUENCE {name} OWNER TO r1', f'ALTER SEQUENCE {name} CACHE {g.one([1, 5])}', f'ALTER SEQUENCE {name} RENAME TO u; ALTER SEQUENCE {g.one(UNIQUE_IN)}.{other} RENAME TO {name.split(".")[1]}; ALTER SEQUENCE {name.split(".")[0]}.u RENAME TO {other}'])

    def sequences(self):
        g = self.g
        q, c = g.name('sq'), g.column()
        return g.one([f'ALTER SEQUENCE {q} RENAME TO {g.name("sq")}', f'ALTER SEQUENCE {q} SET SCHEMA {g.one(g.schemas())}', f'ALTER SEQUENCE {q} OWNED BY {g.one([f"{g.table()}.{c}", "NONE"])}', f'ALTER SEQUENCE {q} {g.one(["INCREMENT 3", "INCREMENT -2 MINVALUE -100", "CACHE 7", "MAXVALUE 60", "CYCLE", "NO CYCLE", "AS smallint", "RESTART"])}',
                      f'ALTER TABLE {g.table()} ALTER {c} SET DEFAULT nextval(\'{q}\')', f'CREATE SEQUENCE {g.one(g.schemas())}.{q} START {g.key()} MINVALUE 0 OWNED BY {g.table()}.{c}', f'SELECT setval(\'{q}\', {g.key()}, false)', f'ALTER TABLE {q} RENAME TO {g.name("sq")}',
                      f'ALTER TABLE {g.table()} ALTER {c} SET GENERATED {g.one(["ALWAYS", "BY DEFAULT"])}', f'ALTER TABLE {g.table()} ALTER i RESTART WITH {g.key()}', f'INSERT INTO {g.table()}(k, i) OVERRIDING {g.one(["USER", "SYSTEM"])} VALUE VALUES ({g.key()}, {g.key()})'])

    def types(self):
        g = self.g
        y, d = g.name('ty'), g.name('dom')
        return g.one([f"ALTER TYPE {y} ADD VALUE IF NOT EXISTS 'w{g.key()}'", f"ALTER TYPE {y} RENAME VALUE 'q' TO 'w'", f'ALTER TYPE {y} RENAME TO {g.name("ty")}', f'ALTER TYPE {y} SET SCHEMA {g.one(g.schemas())}', f'ALTER TYPE {y} ADD ATTRIBUTE r text', f'ALTER TYPE {y} RENAME ATTRIBUTE p TO r CASCADE', f'ALTER TYPE {y} ALTER ATTRIBUTE p TYPE text CASCADE',
                      f'CREATE DOMAIN {d} AS {g.one(["int CHECK (VALUE <> 4)", "text COLLATE " + chr(34) + "C" + chr(34), "text NOT NULL", "public.posint", "int[]"])}', f'DROP DOMAIN IF EXISTS {d} CASCADE', f'ALTER DOMAIN {d} ADD CONSTRAINT {g.name("con")} CHECK (VALUE IS NOT NULL){g.one(["", " NOT VALID"])}', f'ALTER DOMAIN {d} DROP CONSTRAINT IF EXISTS {g.name("con")}',
                      f'ALTER DOMAIN {d} SET NOT NULL', f'ALTER TABLE {g.table()} ADD COLUMN {g.column()} {g.one([y, d])}', f'CREATE TYPE {g.name("ra")} AS RANGE (SUBTYPE = {g.one(["int", "text"])})', f'DROP TYPE IF EXISTS {g.name("ra")} CASCADE', f'CREATE TABLE {g.table()} OF {y}', f'ALTER TABLE {g.table()} NOT OF',
                      f'CREATE COLLATION IF NOT EXISTS {g.name("co")} FROM "C"', f'DROP COLLATION IF EXISTS {g.name("co")}', f'CREATE CAST (text AS public.pair) WITH INOUT AS {g.one(["ASSIGNMENT", "IMPLICIT"])}', 'DROP CAST IF EXISTS (text AS public.pair)'])

    def routines(self):
        g = self.g
        f, p, t = f'{g.one(g.schemas())}.{g.name("f")}', g.name('pr'), g.table()
        return g.one([f'ALTER FUNCTION {f} {g.one(["STABLE", "VOLATILE", "STRICT", "SECURITY DEFINER", "SET search_path = s1, public", "RESET ALL", "OWNER TO r1", "PARALLEL SAFE", "COST 5"])}', f'ALTER FUNCTION {f} RENAME TO {g.name("f")}', f'ALTER FUNCTION {f} SET SCHEMA {g.one(g.schemas())}', f'ALTER FUNCTION {f} DEPENDS ON EXTENSION citext',
                      f'CREATE OR REPLACE FUNCTION {f}(x int DEFAULT {g.key()}) RETURNS SETOF int LANGUAGE {g.one([f"plpgsql AS $$ BEGIN FOR i IN 1..x LOOP BEGIN INSERT INTO {t}(k) VALUES (i); RETURN NEXT i; EXCEPTION WHEN OTHERS THEN NULL; END; END LOOP; END $$", f"sql BEGIN ATOMIC INSERT INTO {t}(k) VALUES (x) RETURNING k; END"])}',
                      f'CREATE OR REPLACE PROCEDURE {p}(x int) LANGUAGE plpgsql AS $$ BEGIN {self.inside()}; {g.one(["COMMIT", "ROLLBACK", "NULL"])}; {self.inside()}; {g.one(["COMMIT", "ROLLBACK AND CHAIN", "NULL"])}; END $$', f'CALL {p}({g.key()})', f'CALL {p}({g.key()})', f'DROP PROCEDURE IF EXISTS {p}', f'DROP ROUTINE IF EXISTS {f}',
                      f'CREATE OR REPLACE TRIGGER {g.name("tr")} BEFORE UPDATE OF {g.column()} ON {t} FOR EACH ROW WHEN (NEW.k > 3) EXECUTE FUNCTION public.note()', f'CREATE CONSTRAINT TRIGGER {g.name("tr")} AFTER INSERT ON {t} DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION public.note()', f'ALTER TRIGGER {g.name("tr")} ON {t} RENAME TO {g.name("tr")}',
                      f'CREATE TRIGGER {g.name("tr")} AFTER UPDATE ON {t} REFERENCING OLD TABLE AS o NEW TABLE AS n FOR EACH STATEMENT EXECUTE FUNCTION public.note()', f'ALTER POLICY {g.name("po")} ON {t} USING (k > 1)', f'ALTER RULE {g.name("ru")} ON {t} RENAME TO {g.name("ru")}', f'CREATE RULE {g.name("ru")} AS ON UPDATE TO {t} DO ALSO DELETE FROM {g.table()} WHERE k = OLD.k',
                      'SET CONSTRAINTS ALL DEFERRED', 'SET CONSTRAINTS ALL IMMEDIATE', f'ALTER VIEW {g.name("v")} {g.one(["RENAME TO " + g.name("v"), "SET (security_barrier)", "OWNER TO r1", "ALTER k SET DEFAULT 3", "SET SCHEMA s1"])}', f'CREATE OR REPLACE RECURSIVE VIEW {g.name("v")} (k) AS SELECT 1 UNION SELECT k + 1 FROM {g.name("v")} WHERE k < 5',
                      f'CREATE TRIGGER {g.name("tr")} INSTEAD OF INSERT ON {g.name("v")} FOR EACH ROW EXECUTE FUNCTION public.note()', f'ALTER MATERIALIZED VIEW {g.name("m")} {g.one(["RENAME TO " + g.name("m"), "OWNER TO r2", "SET SCHEMA s1", "CLUSTER ON " + g.name("ix")])}', f'CREATE UNIQUE INDEX {g.name("ix")} ON {g.name("m")} (k)', f'REFRESH MATERIALIZED VIEW CONCURRENTLY {g.name("m")}'])

    def schemas(self):
        g = self.g
        return g.one([f'CREATE SCHEMA IF NOT EXISTS s4 {g.one(["", "AUTHORIZATION r1"])}', 'CREATE SCHEMA s4 CREATE TABLE t1 (k int PRIMARY KEY) CREATE VIEW v1 AS SELECT k FROM t1 CREATE INDEX ix1 ON t1 (k)', f'DROP SCHEMA IF EXISTS s4 {g.one(["", "CASCADE"])}', f'ALTER TABLE {g.table()} SET SCHEMA s4', 'ALTER SCHEMA s4 OWNER TO r2',
                      f'GRANT {g.one(["USAGE", "CREATE", "ALL"])} ON SCHEMA {g.one(["s1", "s4"])} TO {g.one(["r1", "PUBLIC"])}', f'REVOKE CREATE ON SCHEMA s1 FROM {g.one(["r1", "r2"])}', f'GRANT SELECT ON ALL TABLES IN SCHEMA {g.one(g.schemas())} TO r2 {g.one(["", "WITH GRANT OPTION"])}', f'REVOKE ALL ON ALL {g.one(["TABLES", "SEQUENCES", "FUNCTIONS"])} IN SCHEMA {g.one(g.schemas())} FROM r2 CASCADE',
                      f'ALTER DEFAULT PRIVILEGES {g.one(["", "FOR ROLE r1 "])}{g.one(["", "IN SCHEMA s2 "])}{g.one(["GRANT ALL", "REVOKE ALL"])} ON {g.one(["TABLES", "SEQUENCES", "FUNCTIONS", "TYPES"])} {g.one(["TO", "FROM"])} r2', f'COMMENT ON {g.one(["FUNCTION public.note()", "TYPE public.mood", "VIEW " + g.name("v"), "SEQUENCE " + g.name("sq"), "CONSTRAINT " + g.name("con") + " ON " + g.table(), "INDEX " + g.name("ix")])} IS {g.one(["NULL", chr(39) + "x" + chr(39)])}'])

    def roles(self):
        g = self.g
        r = g.one(['r3', 'r4'])
        return g.one([f'CREATE ROLE {r} {g.one(["", "NOLOGIN CREATEDB", "LOGIN PASSWORD " + chr(39) + "x" + chr(39), "IN ROLE r1", "ROLE r2"])}', f'DROP ROLE {g.one(["", "IF EXISTS "])}{r}', f'ALTER ROLE {r} {g.one(["NOINHERIT", "CONNECTION LIMIT 5", "PASSWORD NULL", "SET work_mem = " + chr(39) + "1MB" + chr(39), "RESET ALL", "BYPASSRLS"])}', f'GRANT {r} TO {g.one(["r1", "r2"])} {g.one(["", "WITH ADMIN OPTION"])}',
                      f'REVOKE {r} FROM {g.one(["r1", "r2"])}', f'ALTER ROLE {r} RENAME TO {g.one(["r3", "r4"])}', f'DROP OWNED BY {r}', f'REASSIGN OWNED BY {r} TO r1', f'ALTER TABLE {g.table()} OWNER TO {r}', f'GRANT ALL ON {g.table()} TO {r}', f'COMMENT ON ROLE {r} IS {g.one(["NULL", chr(39) + "x" + chr(39)])}'])

    def tables(self):
        """What tables have besides columns; several changes at once."""
        g = self.g
        t, c = g.table(), g.column()
        return g.one([f'ALTER TABLE {t} ADD COLUMN {c} {g.one(["int", "text"])}, ADD CONSTRAINT {g.name("con")} UNIQUE (k, {c}), ALTER k SET NOT NULL', f'ALTER TABLE {t} DROP COLUMN IF EXISTS {c}, ADD COLUMN {c} {g.one(["int", "text", "int GENERATED ALWAYS AS (k * 2) STORED", "bigserial", "timestamptz DEFAULT now()", "float8 DEFAULT random()"])}',
                      f'ALTER TABLE {t} ADD CONSTRAINT {g.name("con")} {g.one(["UNIQUE", "PRIMARY KEY"])} USING INDEX {g.name("ix")}', f'ALTER TABLE {t} RENAME CONSTRAINT {g.name("con")} TO {g.name("con")}', f'ALTER TABLE {t} ALTER CONSTRAINT {g.name("con")} DEFERRABLE', f'ALTER TABLE {t} CLUSTER ON {g.name("ix")}', f'CLUSTER {t} USING {g.name("ix")}', f'ALTER TABLE {t} ALTER {c} DROP EXPRESSION IF EXISTS',
                      f'ALTER TABLE {t} SET ACCESS METHOD heap', f'ALTER TABLE {t} ALTER {c} SET COMPRESSION pglz', f'ALTER TABLE {t} REPLICA IDENTITY USING INDEX {g.name("ix")}', f'ALTER TABLE {t} {g.one(["ENABLE", "DISABLE"])} TRIGGER {g.one(["ALL", "USER"])}', f'ALTER TABLE {t} {g.one(["ENABLE", "DISABLE", "ENABLE ALWAYS"])} RULE {g.name("ru")}', f'ALTER INDEX {g.name("ix")} SET (fillfactor = 60)',
                      f'CREATE TABLE {t} (k int, a int, b text, PRIMARY KEY (k, a)) PARTITION BY RANGE (k, a)', f'CREATE TABLE {t} PARTITION OF {g.table()} (PRIMARY KEY (k)) FOR VALUES FROM (MINVALUE) TO (5) PARTITION BY HASH (k)', f'CREATE INDEX {g.one(["", "IF NOT EXISTS " + g.name("ix")])} ON ONLY {t} (k)', f'ALTER INDEX {g.name("ix")} ATTACH PARTITION {g.name("ix")}', f'CREATE INDEX ON {t} USING {g.one(["hash (k)", "brin (k)", "gin (a)", "gist (a)", "spgist (b)"])}',
                      f'SELECT * INTO {t} FROM {g.table()}', f'CREATE TABLE IF NOT EXISTS {t} AS TABLE {g.table()} WITH NO DATA', f'ALTER STATISTICS {g.name("st")} {g.one(["SET STATISTICS 5", "RENAME TO " + g.name("st")])}', f'ALTER TABLE {t} ALTER k TYPE {g.one(["bigint", "text USING k::text", "int USING k + 1"])}', f'ALTER TABLE {t} ALTER {c} SET NOT NULL, ALTER {c} SET DEFAULT NULL, ALTER {c} TYPE text',
                      f'DROP TABLE IF EXISTS {t}, {g.table()} CASCADE', f'DROP VIEW IF EXISTS {g.name("v")}, {g.name("v")}', f'COMMENT ON TRIGGER {g.name("tr")} ON {t} IS \'x\''])

    def server_objects(self):
        g = self.g
        t = g.table()
        return g.one(['CREATE FOREIGN DATA WRAPPER fd1', 'DROP FOREIGN DATA WRAPPER IF EXISTS fd1 CASCADE', 'CREATE SERVER IF NOT EXISTS se1 FOREIGN DATA WRAPPER fd1', 'DROP SERVER IF EXISTS se1 CASCADE', f'CREATE FOREIGN TABLE ft{g.name("")} (k int) SERVER se1', f'DROP FOREIGN TABLE IF EXISTS ft{g.name("")}', 'CREATE USER MAPPING IF NOT EXISTS FOR r1 SERVER se1',
                      f'CREATE PUBLICATION {g.name("pu")} FOR TABLE {t}', f'ALTER PUBLICATION {g.name("pu")} {g.one(["ADD", "SET", "DROP"])} TABLE {t}', f'DROP PUBLICATION IF EXISTS {g.name("pu")}', f'CREATE EVENT TRIGGER et1 ON ddl_command_end WHEN TAG IN (\'CREATE TABLE\') EXECUTE FUNCTION public.noted()', 'DROP EVENT TRIGGER IF EXISTS et1', 'ALTER EVENT TRIGGER et1 DISABLE',
                      'CREATE OR REPLACE FUNCTION public.noted() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO public.log(what) VALUES (tg_tag); END $$', f'CREATE TEXT SEARCH CONFIGURATION {g.name("ts")} (COPY = simple)', f'ALTER TEXT SEARCH CONFIGURATION {g.name("ts")} ALTER MAPPING FOR word WITH english_stem', f'DROP TEXT SEARCH CONFIGURATION IF EXISTS {g.name("ts")}',
                      'CREATE OPERATOR CLASS public.opc FOR TYPE int USING btree AS OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >, FUNCTION 1 btint4cmp(int, int)', f'CREATE INDEX ON {t} (k public.opc)', 'DROP OPERATOR CLASS IF EXISTS public.opc USING btree CASCADE', 'DROP OPERATOR FAMILY IF EXISTS public.opc USING btree CASCADE',
                      'ALTER EXTENSION citext SET SCHEMA s1', f'ALTER EXTENSION hstore ADD TABLE {t}', f'ALTER EXTENSION hstore DROP TABLE {t}', f'GRANT SELECT ON LARGE OBJECT {g.random.randint(5000, 5005)} TO r1', f'ALTER LARGE OBJECT {g.random.randint(5000, 5005)} OWNER TO r2', f'COMMENT ON LARGE OBJECT {g.random.randint(5000, 5005)} IS \'x\''])

    def inside(self):
        """A command for a PL/pgSQL block within dollar quotes."""
        g = self.g
        return g.one([f'INSERT INTO {g.table()}(k) VALUES ({g.key()}) ON CONFLICT DO NOTHING', f'UPDATE {g.table()} SET k = k + 1 WHERE {g.where()}', f'DELETE FROM {g.table()} WHERE {g.where()}', f"EXECUTE '{self.quoted(g.one([g.alter_table, g.create_table, self.tables, self.types])())}'", f'PERFORM k FROM {g.table()} WHERE k = {g.key()} FOR UPDATE'])

    def nested(self):
        g = self.g
        return g.one([f'DO $$ BEGIN {self.inside()}; {self.inside()}; END $$', f'DO $$ BEGIN {self.inside()}; BEGIN {self.inside()}; {self.inside()}; EXCEPTION WHEN OTHERS THEN {self.inside()}; END; END $$', f'DO $$ BEGIN {self.inside()}; {g.one(["COMMIT", "ROLLBACK"])}; {self.inside()}; END $$',
                      f'DO $$ BEGIN FOR i IN 1..3 LOOP BEGIN {self.inside()}; IF i = 2 THEN RAISE EXCEPTION \'x\'; END IF; EXCEPTION WHEN raise_exception THEN {self.inside()}; END; END LOOP; END $$', f'EXPLAIN (ANALYZE, COSTS off, TIMING off, SUMMARY off) CREATE TABLE {g.table()} AS SELECT 1 AS k', f'EXPLAIN ANALYZE EXECUTE p(1, 1)', f'PREPARE p AS INSERT INTO {g.table()}(k) VALUES ($2) RETURNING $1::text'])

    def copies(self):
        g = self.g
        t = g.table()
        return g.one([f"COPY {t}(k) FROM PROGRAM 'seq {g.key()} {g.key() + 6}'", f"COPY {t}(k, {g.column()}) FROM PROGRAM 'printf \"{g.key()},1\\n{g.key() + 20},\\n\"' (FORMAT csv{g.one(['', ', FREEZE', ', NULL 1'])})", f"COPY {g.name('v')}(k) FROM PROGRAM 'echo {g.key()}'", f"COPY (DELETE FROM {t} WHERE k = {g.key()} RETURNING k) TO PROGRAM 'cat > /dev/null'",
                      f"COPY {t} TO PROGRAM 'cat > /dev/null'", f'CREATE TABLE {t} AS EXECUTE p(1, {g.key()})', f'TRUNCATE {t}; COPY {t}(k) FROM PROGRAM \'seq 30 40\' (FREEZE)'])

    def cursors(self):
        g = self.g
        t = g.table()
        return g.one([f'BEGIN; DECLARE cu CURSOR FOR SELECT k FROM {t} WHERE {g.where()} FOR UPDATE; FETCH 2 FROM cu; UPDATE {t} SET {g.column()} = {g.value()} WHERE CURRENT OF cu; MOVE 1 IN cu; DELETE FROM {t} WHERE CURRENT OF cu; COMMIT', f'DECLARE cw CURSOR WITH HOLD FOR DELETE FROM {t} RETURNING k', f'DECLARE cw CURSOR WITH HOLD FOR SELECT k FROM {t} FOR UPDATE', 'FETCH ALL FROM cw', 'CLOSE ALL',
                      f'DISCARD {g.one(["PLANS", "SEQUENCES", "TEMP"])}', f'UPDATE {t} SET {g.column()} = {g.value()} WHERE ctid = (SELECT min(ctid) FROM {t})', f'DELETE FROM {t} WHERE ctid IN (SELECT ctid FROM {g.table()} LIMIT 2)', f'UPDATE {t} SET k = k + (random() * 5)::int', f'INSERT INTO {t}(k) SELECT (random() * 100)::int FROM generate_series(1, 5) ON CONFLICT DO NOTHING', f'SELECT k FROM {t} FOR UPDATE SKIP LOCKED', f'SELECT k FROM {t} FOR NO KEY UPDATE NOWAIT', f'SELECT pg_advisory_xact_lock({g.key()})'])

    def concurrently(self):
        """What can't be in a transaction.  A failed REINDEX CONCURRENTLY leaves an index on its node alone (docs/ddl.md)."""
        g = self.g
        t, x = g.table(), g.name('ix')
        return g.one([f'CREATE {g.one(["", "UNIQUE "])}INDEX CONCURRENTLY {g.one(["", "IF NOT EXISTS "])}{x} ON {t} ({g.one([g.column(), "k"])})', f'DROP INDEX CONCURRENTLY IF EXISTS {x}', f'REINDEX {g.one(["TABLE", "INDEX"])} {g.one(["", "" if g.at_once else "CONCURRENTLY "])}{g.one([t, x])}', f'ALTER TABLE {t} DETACH PARTITION {g.table()} {g.one(["CONCURRENTLY", "FINALIZE"])}', f'VACUUM {g.one(["", "FULL ", "FREEZE ", "ANALYZE "])}{t}', f'CLUSTER {t}'])
