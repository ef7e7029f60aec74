# Functions that are IMMUTABLE by declaration but read a setting: what the origin
# stored in a generated column is what every node stores, what it indexed is what
# they index - whatever the setting, wherever it was set, however the rows travel,
# and on a node that was away.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use Test::More;

my $c = LockstepCluster->new(nodes => 3, durable => 1);

# from 19 on xmlelement() is STABLE only
my $made = $c->version >= 19 ? '' : 'GENERATED ALWAYS AS (xmlelement(name f, f)) STORED';
$c->sql(1, <<'SQL' =~ s/MADE/$made/r);
CREATE FUNCTION day_of(timestamptz) RETURNS date IMMUTABLE LANGUAGE sql AS 'SELECT $1::date';
CREATE FUNCTION tsv(text) RETURNS tsvector IMMUTABLE LANGUAGE sql AS 'SELECT to_tsvector($1)';
CREATE FUNCTION tenant() RETURNS text IMMUTABLE LANGUAGE sql AS $$SELECT coalesce(current_setting('app.tenant', true), 'none')$$;
CREATE FUNCTION of_tenant(text) RETURNS text IMMUTABLE LANGUAGE plpgsql AS $$BEGIN RETURN public.tenant() || '/' || $1; END$$;
CREATE FUNCTION directly(text) RETURNS text IMMUTABLE LANGUAGE plpgsql AS $$BEGIN RETURN coalesce(current_setting('app.tenant', true), 'none') || '/' || $1; END$$;
CREATE FUNCTION who() RETURNS text IMMUTABLE LANGUAGE sql AS 'SELECT current_user::text';
CREATE FUNCTION dice() RETURNS float8 IMMUTABLE LANGUAGE plpgsql AS 'BEGIN RETURN random(); END';
CREATE TABLE g (id int PRIMARY KEY, ts timestamptz, t text, f float8, b bytea,
	day date GENERATED ALWAYS AS (day_of(ts)) STORED, v tsvector GENERATED ALWAYS AS (tsv(t)) STORED,
	o text GENERATED ALWAYS AS (directly(t)) STORED, ten text GENERATED ALWAYS AS (tenant()) STORED, w text GENERATED ALWAYS AS (who()) STORED,
	d float8 GENERATED ALWAYS AS (dice()) STORED, plain int GENERATED ALWAYS AS (length(t)) STORED, n int);
CREATE TABLE nokey (x text, o text GENERATED ALWAYS AS (of_tenant(x)) STORED);
-- of built-in functions alone
CREATE TABLE built (id int PRIMARY KEY, f float8, b bytea, p point, ft text GENERATED ALWAYS AS (f::text) STORED,
	bt text GENERATED ALWAYS AS (b::text) STORED, pt text GENERATED ALWAYS AS (p::text) STORED,
	q text GENERATED ALWAYS AS (quote_ident('abc')) STORED, x xml MADE);
-- trigger: PostgreSQL then computes all generated columns in each update
CREATE TABLE trig (id int PRIMARY KEY, t text, n int, o text GENERATED ALWAYS AS (of_tenant(t)) STORED);
CREATE FUNCTION nothing() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';
CREATE TRIGGER nothing BEFORE UPDATE ON trig FOR EACH ROW EXECUTE FUNCTION nothing();
CREATE TABLE u (id int PRIMARY KEY, ts timestamptz, k text, f float8);
CREATE UNIQUE INDEX u_day ON u (day_of(ts)); CREATE UNIQUE INDEX u_of ON u (of_tenant(k));
CREATE UNIQUE INDEX u_ten ON u (k, tenant()); CREATE UNIQUE INDEX u_f ON u ((f::text));
CREATE UNIQUE INDEX u_part ON u (k) WHERE tenant() = 'a';
CREATE TABLE e (id int PRIMARY KEY, k text, EXCLUDE USING btree (directly(k) WITH =));
SQL
$c->drain;

# each node's sessions with others
my %settings = (1 => "SET timezone = 'Asia/Tokyo'; SET default_text_search_config = 'german'; SET app.tenant = 'a'; SET extra_float_digits = -10; SET bytea_output = escape;",
	2 => "SET timezone = 'America/New_York'; SET datestyle = 'SQL, DMY'; SET intervalstyle = 'sql_standard'; SET app.tenant = 'b';",
	3 => "SET timezone = 'UTC'; SET quote_all_identifiers = on;");
for my $n (1 .. 3)
{
	$c->sql($n, "$settings{$n} INSERT INTO g (id, ts, t, f, b) VALUES ($n, '2020-01-01 20:00+00', 'die Häuser', 0.1, '\\x00ff')");
	$c->sql($n, "$settings{$n} INSERT INTO g (id, ts, t) SELECT 100 * $n + i, '2020-01-01 20:00+00'::timestamptz + i * interval '1 hour', 'die Häuser ' || i FROM generate_series(1, 20) i");
	$c->sql($n, "$settings{$n} COPY g (id, ts, t) FROM STDIN;\n100$n\t2020-01-01 20:00+00\tdie Häuser\n200$n\t\\N\t\\N\n\\.\n");
	$c->sql($n, "$settings{$n} INSERT INTO built VALUES ($n, 0.1::float8 + 0.2, '\\x00ff', '(0.1,0.30000000000000004)')");
	$c->sql($n, "$settings{$n} INSERT INTO nokey VALUES ('x'); INSERT INTO trig VALUES ($n, 'x', 1)");
}
$c->same('generated columns of each node');
is($c->sql(3, 'SELECT day, ten, o, w FROM g WHERE id = 1'), '2020-01-02|a|a/die Häuser|postgres', 'as stored on n1');
is($c->sql(1, 'SELECT day, ten FROM g WHERE id = 2'), '2020-01-01|b', 'as stored on n2');
is($c->sql(1, 'SELECT v FROM g WHERE id = 1'), "'haus':2", 'with its text search configuration');
is($c->sql(1, 'SELECT ten FROM g WHERE id = 3'), 'none', 'a setting that the session does not know');

# updates: of what they are made from, of other columns, many at once, of each value alone
for my $n (1 .. 3)
{
	my $other = $n % 3 + 1;
	$c->sql($n, "$settings{$n} UPDATE g SET n = 7 WHERE id = 100 * $other + 1; UPDATE g SET t = 'ein Haus' WHERE id = 100 * $other + 2");
	$c->sql($n, "$settings{$n} UPDATE g SET n = 8 WHERE id BETWEEN 100 * $other + 3 AND 100 * $other + 14; UPDATE g SET ts = ts + interval '5 hours' WHERE id BETWEEN 100 * $other + 8 AND 100 * $other + 19");
	$c->sql($n, "$settings{$n} UPDATE trig SET n = n + 1; UPDATE trig SET t = 'y' WHERE id = $n; UPDATE nokey SET x = x || '$n'; UPDATE built SET f = f * 3");
	$c->drain;		# all change the same rows
}
$c->sql(1, "DELETE FROM nokey WHERE x LIKE '%1%' AND o LIKE 'a%'; DELETE FROM g WHERE id BETWEEN 101 AND 112");
$c->same('updates and deletes');

# in the middle of a transaction, and of a statement
$c->sql(2, <<'SQL');
BEGIN; SET LOCAL app.tenant = 'p'; INSERT INTO g (id, t) VALUES (3001, 'x'); SET LOCAL app.tenant = 'q'; INSERT INTO g (id, t) VALUES (3002, 'x');
INSERT INTO u (id, k) VALUES (3001, 'm'); SET LOCAL app.tenant = 'r'; INSERT INTO u (id, k) VALUES (3002, 'm'); COMMIT;
CREATE FUNCTION tenant_of(int) RETURNS text LANGUAGE sql VOLATILE AS $$SELECT set_config('app.tenant', 't' || $1, true)$$;
BEGIN; INSERT INTO g (id, t) SELECT 3100 + i, tenant_of(i) FROM generate_series(1, 10) i; INSERT INTO e SELECT 3100 + i, left(tenant_of(i), 1) FROM generate_series(1, 10) i; COMMIT;
SQL
$c->same('set for a transaction, and for each row');
is($c->sql(3, 'SELECT string_agg(o, \',\' ORDER BY id) FROM g WHERE id BETWEEN 3001 AND 3103'), 'p/x,q/x,t1/t1,t2/t2,t3/t3', 'each row as its moment had it');

# set for the role, the database, a function
$c->sql(1, "CREATE ROLE r LOGIN; GRANT ALL ON ALL TABLES IN SCHEMA public TO r; ALTER ROLE r SET app.tenant = 'of role'; ALTER DATABASE app SET timezone = 'Asia/Tokyo'");
$c->sql(1, "CREATE FUNCTION ins(int, text) RETURNS void LANGUAGE sql SET app.tenant = 'of function' AS 'INSERT INTO g (id, t) VALUES (\$1, \$2); INSERT INTO u (id, k) VALUES (\$1, \$2)'");
$c->drain;
$c->sql(2, 'SELECT ins(4001, \'f\')');
my $port = $c->port(2);
system("$LockstepCluster::bindir/psql -X -q -h 127.0.0.1 -p $port -U r -d app -c \"INSERT INTO g (id, ts, t) VALUES (4002, '2020-01-01 20:00+00', 'r'); INSERT INTO u (id, ts, k) VALUES (4002, '2019-01-01 20:00+00', 'f')\"") == 0 or die;
$c->same('set for a role, a database, a function');
is($c->sql(3, 'SELECT day, o, w FROM g WHERE id = 4002'), '2020-01-02|of role/r|r', 'the role\'s');

# indexes: no false duplicates, and none missed
$c->sql(1, "SET timezone = 'Asia/Tokyo'; INSERT INTO u (id, ts) VALUES (1, '2020-01-01 14:00+00'), (2, '2020-01-01 16:00+00')");
$c->drain;
$c->fails(2, "SET timezone = 'UTC'; INSERT INTO u (id, ts) VALUES (3, '2020-01-01 03:00+00')", '23505', qr/u_day/, 'the day is there, in another time zone');
do { $c->sql($_, "SET app.tenant = 't$_'; INSERT INTO u (id, k) VALUES (10 + $_, 'same'); INSERT INTO e VALUES ($_, 'same')"); $c->drain } for 1 .. 3;
$c->fails(3, "SET app.tenant = 't1'; INSERT INTO u (id, k) VALUES (20, 'same')", '23505', qr/u_(of|ten)/, 'a tenant has it');
$c->fails(3, "SET app.tenant = 't1'; INSERT INTO e VALUES (20, 'same')", '23P01', qr/e_/, 'a tenant has it, says an exclusion constraint');
$c->sql(2, "INSERT INTO u (id, k) VALUES (21, 'same'); SET app.tenant = ''; INSERT INTO u (id, k) VALUES (22, 'same')");
$c->sql(3, "SET app.tenant = 'a'; INSERT INTO u (id, k) SELECT 30, 'part'; SET app.tenant = 'a2'; INSERT INTO u (id, k) SELECT 31, 'part'; SET app.tenant = 'a3'; INSERT INTO u (id, k) VALUES (32, 'part')");
$c->sql(1, "SET extra_float_digits = -10; INSERT INTO u (id, f) VALUES (40, 0.1); SET extra_float_digits = 1; INSERT INTO u (id, f) VALUES (41, 0.1::float8 + 1e-16)");
$c->same('indexes');
for my $n (1 .. 3)
{
	is($c->sql($n, "SET app.tenant = 't2'; SET enable_seqscan = off; SELECT id FROM u WHERE of_tenant(k) = 't2/same'"), 12, "the index of n$n has the row by its value at the origin");
}

# many tenants: no plan for each, and a run in between
$c->sql(1, "DO \$\$BEGIN FOR i IN 1 .. 1500 LOOP PERFORM set_config('app.tenant', 'many' || i, true); INSERT INTO u (id, k) VALUES (10000 + i, 'many'); END LOOP; END\$\$");
$c->same('1500 tenants in one transaction');

# DDL computes with the session's settings, everywhere
$c->sql(1, "CREATE TABLE d (id int PRIMARY KEY, ts timestamptz, k text); INSERT INTO d SELECT i, '2020-01-01'::timestamptz + i * interval '7 hours', 'k' || i FROM generate_series(1, 20) i");
$c->sql(2, "SET timezone = 'Asia/Tokyo'; SET app.tenant = 'ddl'; ALTER TABLE d ADD day date GENERATED ALWAYS AS (day_of(ts)) STORED, ADD o text GENERATED ALWAYS AS (of_tenant(k)) STORED, ADD r float8 GENERATED ALWAYS AS (dice()) STORED");
$c->sql(3, "SET app.tenant = 'ix'; CREATE UNIQUE INDEX d_of ON d (of_tenant(k)); CREATE UNIQUE INDEX CONCURRENTLY d_of2 ON d ((of_tenant(k) || 'x'))");
$c->same('DDL over rows');
is($c->sql(1, 'SELECT o FROM d WHERE id = 1'), 'ddl/k1', 'with the settings of the command');
is($c->sql($_, "SET app.tenant = 'ix'; SET enable_seqscan = off; SELECT id FROM d WHERE of_tenant(k) = 'ix/k5'"), 5, "and so does the index of n$_") for 1 .. 3;

# a node that was away
$c->cluster('kill-node', 3);
$c->sql(1, "$settings{1} INSERT INTO g (id, ts, t) SELECT 5000 + i, now(), 'x' FROM generate_series(1, 20) i; UPDATE g SET t = 'away' WHERE id BETWEEN 5001 AND 5015; INSERT INTO u (id, ts) VALUES (50, '2022-01-01 14:00+00'), (51, '2022-01-01 16:00+00')");
$c->sql(2, "$settings{2} COPY g (id, t) FROM STDIN;\n6001\tx\n6002\ty\n\\.\n");
$c->sql(2, "SET app.tenant = 'z'; INSERT INTO u (id, k) VALUES (52, 'away'); SET app.tenant = 'zz'; INSERT INTO u (id, k) VALUES (53, 'away')");
$c->sql(2, "CREATE TABLE d2 AS SELECT id, ts FROM d; SET timezone = 'Asia/Tokyo'; ALTER TABLE d2 ADD day date GENERATED ALWAYS AS (day_of(ts)) STORED");
$c->cluster('start-node', 3);
$c->wait_state(3, 'online', 120);
$c->same('after a node was away');
my ($said, undef, $status) = $c->ctl('verify');
is($status, 0, 'lockstepctl verify says so, too') or diag $said;

done_testing;
