# Every built-in function that lockstep replaces is replaced for whoever calls it: compiled expressions (JIT) call
# functions by their names in C, or contain their code.  One expression calls all of the replaced functions whose effect
# can be seen; it stands in each place where an expression can, compiled with inlining and without.  After each: the
# sequence's value came from a lease, the calls were forwarded; at the end the nodes are equal, and n2 was notified.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use Test::More;

my $c = LockstepCluster->new(nodes => 2);
my %setting = (
	compiled => 'SET jit = on; SET jit_above_cost = 0; SET jit_inline_above_cost = -1; SET jit_optimize_above_cost = -1;',
	inlined => 'SET jit = on; SET jit_above_cost = 0; SET jit_inline_above_cost = 0; SET jit_optimize_above_cost = 0;');

# Of way number W.  It makes large objects LO1, LO2, LO6; LO3 to LO5 are there.
my $all = <<'SQL' =~ s/\s+/ /gr;
concat_ws('|', nextval('ns'), currval('ns'), lastval(), setval('sa_W', 777), setval('sb_W', 888, false),
	pg_notify('way', 'W'), pg_logical_emit_message(true, 'way', 'W'), pg_logical_emit_message(true, 'way', '\x57'::bytea),
	lo_create(LO1), lo_from_bytea(LO2, '\x616263'), lo_creat(-1), lo_put(LO3, 1, '\x58'), lo_truncate(lo_open(LO4, 131072), 2),
	lo_truncate64(lo_open(LO4, 131072), 1), lowrite(lo_open(LO5, 131072), '\x59'), lo_import('/etc/hostname'), lo_import('/etc/hostname', LO6))
SQL

# Functions of users that are the same functions under other names.
my $aliases = <<'SQL' =~ s/\s+/ /gr;
concat_ws('|', my_nextval('ns'), my_currval('ns'), my_lastval(), my_setval('sa_W', 777), my_setval('sb_W', 888, false),
	my_notify('way', 'W'), my_message(true, 'way', 'W'), my_message(true, 'way', 'W'), my_create(LO1), my_from_bytea(LO2, '\x616263'))
SQL

# E: the expression, A: with aliases, R: without lo_create.
my @ways = (
	[ 'a list of results' => 'SELECT E;' ],
	[ 'WHERE' => "SELECT 1 FROM one WHERE E <> '';" ],
	[ 'a join' => "SELECT 1 FROM one a JOIN one b ON a.v = b.v AND E <> '';" ],
	[ 'CASE' => "SELECT CASE WHEN v = 'x' THEN E END FROM one;" ],
	[ 'GROUP BY' => 'SELECT count(*) FROM one GROUP BY E;' ],
	[ 'HAVING' => "SELECT count(*) FROM one HAVING E <> '';" ],
	[ 'an argument of an aggregate' => "SELECT string_agg(E, ',') FROM one;" ],
	[ 'FILTER of an aggregate' => "SELECT count(*) FILTER (WHERE E <> '') FROM one;" ],
	[ 'ORDER BY of an aggregate' => "SELECT string_agg(v, ',' ORDER BY E) FROM one;" ],
	[ 'an argument of a window function' => 'SELECT lag(v, 1, E) OVER () FROM one;' ],
	[ 'a window aggregate' => 'SELECT max(E) OVER () FROM one;' ],
	[ 'LIMIT' => 'SELECT 1 FROM one LIMIT length(E);' ],
	[ 'a function in FROM' => 'SELECT count(*) FROM generate_series(1, length(E));' ],
	[ 'VALUES' => "SELECT * FROM (VALUES (E), ('a')) v;" ],
	[ 'a subquery' => 'SELECT 1 FROM one WHERE v <> (SELECT E);' ],
	[ 'a CTE' => 'WITH w AS MATERIALIZED (SELECT E AS e) SELECT count(e) FROM w;' ],
	[ 'INSERT ... SELECT' => 'INSERT INTO got SELECT E FROM one;' ],
	[ 'INSERT ... VALUES' => "INSERT INTO got VALUES (E), ('y');" ],
	[ 'ON CONFLICT' => 'INSERT INTO keyed VALUES (1) ON CONFLICT (i) DO UPDATE SET v = E;' ],
	[ 'UPDATE and RETURNING' => 'UPDATE one SET w = w RETURNING E;' ],
	[ 'DELETE' => "DELETE FROM one WHERE E = '';" ],
	[ 'MERGE' => 'MERGE INTO keyed k USING one ON k.i = 1 WHEN MATCHED THEN UPDATE SET v = E;' ],
	[ 'a default, INSERT' => 'CREATE TABLE def_W (i int, v text DEFAULT E); INSERT INTO def_W SELECT 1 FROM one;' ],
	[ 'a default, COPY' => "CREATE TABLE def_W (i int, v text DEFAULT E); COPY def_W (i) FROM stdin;\n1\n\\.\n" ],
	[ 'WHERE of COPY' => "COPY got FROM stdin WHERE E <> '';\nz\n\\.\n" ],
	[ 'COPY of a query' => 'COPY (SELECT E) TO stdout;' ],
	[ 'CREATE TABLE AS' => 'CREATE TABLE ctas_W AS SELECT E AS e FROM one;' ],
	[ 'a prepared generic plan' => 'SET LOCAL plan_cache_mode = force_generic_plan; PREPARE p_W (bool) AS SELECT E WHERE $1; EXECUTE p_W (true);' ],
	[ 'a cursor' => 'DECLARE c_W CURSOR FOR SELECT E FROM one; FETCH ALL FROM c_W;' ],
	[ 'a view' => 'CREATE VIEW view_W AS SELECT E AS e FROM one; SELECT * FROM view_W;' ],
	[ 'a function in SQL, inlined' => 'CREATE FUNCTION f_W() RETURNS text LANGUAGE sql AS $$ SELECT E $$; SELECT f_W() FROM one;' ],
	[ 'a function in SQL, not inlined' => 'CREATE FUNCTION f_W() RETURNS text LANGUAGE sql SECURITY DEFINER AS $$ SELECT E $$; SELECT f_W() FROM one;' ],
	[ 'a simple expression of PL/pgSQL' => 'DO $$ DECLARE x text; BEGIN x := E; END $$;' ],
	[ 'PERFORM in PL/pgSQL' => 'DO $$ BEGIN PERFORM E FROM one; END $$;' ],
	[ 'a loop over a query in PL/pgSQL' => 'DO $$ DECLARE x text; BEGIN FOR x IN SELECT E FROM one LOOP NULL; END LOOP; END $$;' ],
	[ 'a query made by PL/pgSQL' => 'DO $do$ BEGIN EXECUTE $$ SELECT E FROM one $$; END $do$;' ],
	[ 'a procedure' => 'CREATE PROCEDURE p_W() LANGUAGE plpgsql AS $$ BEGIN PERFORM E FROM one; END $$; CALL p_W();' ],
	[ 'a trigger' => 'CREATE FUNCTION t_W() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.v := (SELECT E FROM one); RETURN NEW; END $$; ' .
		'CREATE TABLE trig_W (v text); CREATE TRIGGER t BEFORE INSERT ON trig_W FOR EACH ROW EXECUTE FUNCTION t_W(); INSERT INTO trig_W VALUES (1);' ],
	[ 'WHEN of a trigger' => 'CREATE FUNCTION t_W() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NEW; END $$; CREATE TABLE trig_W (v text); ' .
		"CREATE TRIGGER t BEFORE INSERT ON trig_W FOR EACH ROW WHEN (E <> '') EXECUTE FUNCTION t_W(); INSERT INTO trig_W VALUES (1);" ],
	[ 'a trigger in C' => 'CREATE TABLE auto_W (id int, v text); CREATE TRIGGER t BEFORE INSERT ON auto_W FOR EACH ROW EXECUTE FUNCTION autoinc(id, ns); ' .
		'INSERT INTO auto_W SELECT 0, E FROM one;' ],
	[ 'under other names' => 'SELECT A FROM one;' ],
	[ 'under other names, inserted' => 'INSERT INTO got SELECT A FROM one;' ],
	[ 'what an aggregate consists of' => "CREATE AGGREGATE agg_W(*) (sfunc = lo_create, stype = oid, initcond = 'LO1'); SELECT agg_W(*), max(R) FROM one;" ],
	[ 'what a window aggregate consists of' => "CREATE AGGREGATE agg_W(*) (sfunc = lo_create, stype = oid, initcond = 'LO1'); SELECT agg_W(*) OVER (), R FROM one;" ],
	[ 'a final function' => "CREATE AGGREGATE fin_W(regclass) (sfunc = keep, stype = regclass, finalfunc = nextval); SELECT fin_W('ns'), max(E) FROM one;" ]);

# ---------- what it stands on

my $ways = 2 * @ways;
sub lo { my ($way, $n) = @_; return 800_000 + 10 * $way + $n }

$c->sql(1, <<"SQL");
CREATE EXTENSION autoinc;
CREATE TABLE one (v text, w int); INSERT INTO one VALUES ('x', 1);
CREATE TABLE got (v text);
CREATE TABLE keyed (i int PRIMARY KEY, v text); INSERT INTO keyed VALUES (1, 'x');
CREATE SEQUENCE ns;
CREATE FUNCTION my_nextval(regclass) RETURNS bigint LANGUAGE internal STRICT AS 'nextval_oid';
CREATE FUNCTION my_currval(regclass) RETURNS bigint LANGUAGE internal STRICT AS 'currval_oid';
CREATE FUNCTION my_lastval() RETURNS bigint LANGUAGE internal STRICT AS 'lastval';
CREATE FUNCTION my_setval(regclass, bigint) RETURNS bigint LANGUAGE internal STRICT AS 'setval_oid';
CREATE FUNCTION my_setval(regclass, bigint, boolean) RETURNS bigint LANGUAGE internal STRICT AS 'setval3_oid';
CREATE FUNCTION my_notify(text, text) RETURNS void LANGUAGE internal AS 'pg_notify';
CREATE FUNCTION my_message(boolean, text, text) RETURNS pg_lsn LANGUAGE internal STRICT AS 'pg_logical_emit_message_text';
CREATE FUNCTION my_create(oid) RETURNS oid LANGUAGE internal STRICT AS 'be_lo_create';
CREATE FUNCTION my_from_bytea(oid, bytea) RETURNS oid LANGUAGE internal STRICT AS 'be_lo_from_bytea';
CREATE FUNCTION keep(regclass, regclass) RETURNS regclass LANGUAGE sql AS 'SELECT \$2';
DO \$\$
DECLARE
	w int;
	n int;
BEGIN
	FOR w IN 1 .. $ways LOOP
		EXECUTE format('CREATE SEQUENCE sa_%s', w);
		EXECUTE format('CREATE SEQUENCE sb_%s', w);
		FOR n IN 3 .. 5 LOOP
			PERFORM lo_from_bytea((@{[lo(0, 0)]} + 10 * w + n)::oid, '\\x414243');
		END LOOP;
	END LOOP;
END \$\$;
SQL
$c->drain;
is($c->sql(2, "SELECT nextval('ns')"), 1, 'n2 has the first lease');
my $listener = $c->session(2);
$listener->do('LISTEN way');

SKIP:
{
	skip 'this server has no JIT', 1 if $c->sql(1, 'SELECT pg_jit_available()') eq 'f';
	like($c->sql(1, "$setting{inlined} EXPLAIN (ANALYZE) SELECT nextval('ns') FROM one"), qr/JIT:.*Inlining true/s, 'expressions are compiled');
}

# ---------- each way

my ($script, @named) = ('', '');
for my $how (sort keys %setting)
{
	$script .= "$setting{$how}\n";
	for my $way (@ways)
	{
		my ($name, $sql) = @$way;
		my $rest = $all =~ s/lo_create\(LO1\), //r;
		my $w = @named;
		push @named, "$name, $how";
		$sql =~ s/\bE\b/$all/g;
		$sql =~ s/\bA\b/$aliases/g;
		$sql =~ s/\bR\b/$rest/g;
		$sql =~ s/_W\b/_$w/g;
		$sql =~ s/'W'/'$w'/g;
		$sql =~ s/LO(\d)/lo($w, $1)/ge;
		$script .= "BEGIN;\n$sql\nSELECT 'WAY', $w, currval('ns'), (SELECT count(*) FROM lockstep.forwarded WHERE query ~ '^SELECT pg_catalog.pg_logical_emit_message');\nCOMMIT;\n";
	}
}
my $out = $c->psql_says($c->port(1), 'app', "SELECT nextval('ns') > 32;\n$script");
my %ended = map { /^WAY\|(\d+)\|(\d+)\|(\d+)$/ ? ($1 => [ $2, $3 ]) : () } split /\n/, $out;
my $before = 33;
for my $w (1 .. $#named)
{
	my ($value, $messages) = @{ $ended{$w} // [ 0, 0 ] };
	ok($value > $before && $messages == 2, "$named[$w]: a value of a lease, two messages forwarded")
		or diag("value $value after $before, $messages messages");
	$before = $value if $value > $before;
}
unlike($out, qr/ERROR/, 'nothing failed') or diag(join("\n", grep { /ERROR|DETAIL/ } split /\n/, $out));

# ---------- in parallel workers, by functions that say of themselves that they may be there

$c->sql(1, join(' ', map { "ALTER FUNCTION $_ PARALLEL SAFE;" } 'my_nextval', 'my_setval(regclass, bigint)', 'my_setval(regclass, bigint, boolean)', 'my_notify',
	'my_message', 'my_create', 'my_from_bytea'));
my $parallel = $c->sql(1, "SELECT name FROM pg_settings WHERE name IN ('force_parallel_mode', 'debug_parallel_query')");
for my $how (sort keys %setting)
{
	for my $call ("my_nextval('ns')", "my_setval('sa_1', 5)", "my_setval('sa_1', 5, true)", "my_notify('way', 'parallel')", "my_message(true, 'way', 'parallel')",
		'my_create(799999)', "my_from_bytea(799999, '\\x61')")
	{
		$c->fails(1, "$setting{$how} SET $parallel = on; BEGIN; INSERT INTO got VALUES ('parallel'); SELECT $call FROM one; COMMIT",
			'25000|XX000|0A000', qr/parallel/, "in a parallel worker, $how: $call");
	}
}

# ---------- what it did

$c->drain;
is($c->sql(2, join(' UNION ALL ', map { "SELECT $_ WHERE (SELECT last_value FROM sa_$_) <> 777 OR (SELECT last_value FROM sb_$_) <> 888" } 1 .. $ways)),
	'', 'n2: each setval');
my %heard;
$c->wait_until(
	sub {
		$heard{$_} = 1 for $listener->query('SELECT 1') =~ /with payload "(\d+)"/g;
		return keys %heard == $ways;
	}, 30);
is(join(' ', grep { !$heard{$_} } 1 .. $ways), '', 'n2 was notified by each');
$c->same('the nodes are equal');
done_testing();
