# Who compares and repairs nodes reads everybody's tables as a superuser.  Nothing that a
# table's owner can make calls his functions with those rights (casts of row types, enums and domains,
# operators of his types, views in place of tables, rules, triggers, policies, index
# expressions, exclusion constraints), and what differs is shown as it is.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use JSON::PP ();
use LockstepCluster;
use Test::More;

my $c = LockstepCluster->new(nodes => 2);
my $mallory = 'SET SESSION AUTHORIZATION mallory;';

$c->sql(1, <<'SQL');
CREATE EXTENSION amcheck;
CREATE ROLE mallory;
CREATE SCHEMA m AUTHORIZATION mallory;
CREATE FOREIGN DATA WRAPPER fdw;
CREATE SERVER far FOREIGN DATA WRAPPER fdw;
GRANT USAGE ON FOREIGN SERVER far TO mallory;
SET SESSION AUTHORIZATION mallory;
SET search_path = m;
CREATE FUNCTION look(how text) RETURNS void LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
	RAISE LOG 'LOOK % super=%', how, (SELECT rolsuper FROM pg_catalog.pg_roles WHERE rolname = current_user);
END $$;
CREATE FUNCTION f(i int, how text) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$BEGIN PERFORM m.look(how); RETURN i; END$$;

CREATE TYPE e AS ENUM ('a', 'b', 'c');
CREATE TYPE r AS (x int);
CREATE DOMAIN d AS int CHECK (m.f(VALUE, 'check of a domain') > 0);
CREATE DOMAIN of_e AS e;
CREATE DOMAIN of_xml AS xml;
CREATE FUNCTION diff(a int, b int) RETURNS float8 LANGUAGE plpgsql IMMUTABLE AS $$BEGIN PERFORM m.look('subtype_diff'); RETURN a - b; END$$;
CREATE TYPE span AS RANGE (SUBTYPE = int, SUBTYPE_DIFF = m.diff);
CREATE TABLE t (i int, v text);
CREATE TABLE k (e e, oe of_e, d d, r r, s span, x of_xml, v text, PRIMARY KEY (e, oe, d, r, s));
CREATE TABLE c (c m.t, es e[], rs r[]);

CREATE FUNCTION cast_t(m.t) RETURNS text LANGUAGE plpgsql AS $$BEGIN PERFORM m.look('cast of a row'); RETURN 'nothing to see'; END$$;
CREATE FUNCTION cast_k(m.k) RETURNS text LANGUAGE plpgsql AS $$BEGIN PERFORM m.look('cast of a row'); RETURN 'nothing to see'; END$$;
CREATE FUNCTION cast_c(m.c) RETURNS text LANGUAGE plpgsql AS $$BEGIN PERFORM m.look('cast of a row'); RETURN 'nothing to see'; END$$;
CREATE FUNCTION cast_e(m.e) RETURNS text LANGUAGE plpgsql AS $$BEGIN PERFORM m.look('cast of an enum'); RETURN 'nothing to see'; END$$;
CREATE FUNCTION cast_r(m.r) RETURNS text LANGUAGE plpgsql AS $$BEGIN PERFORM m.look('cast of a composite'); RETURN 'nothing to see'; END$$;
CREATE FUNCTION cast_d(m.d) RETURNS text LANGUAGE plpgsql AS $$BEGIN PERFORM m.look('cast of a domain'); RETURN 'nothing to see'; END$$;
CREATE FUNCTION cast_x(m.of_xml) RETURNS text LANGUAGE plpgsql AS $$BEGIN PERFORM m.look('cast of a domain'); RETURN 'nothing to see'; END$$;
CREATE FUNCTION cast_es(m.e[]) RETURNS text LANGUAGE plpgsql AS $$BEGIN PERFORM m.look('cast of an array'); RETURN 'nothing to see'; END$$;
CREATE FUNCTION cast_s(m.span) RETURNS text LANGUAGE plpgsql AS $$BEGIN PERFORM m.look('cast of a range'); RETURN 'nothing to see'; END$$;
CREATE FUNCTION json_e(m.e) RETURNS json LANGUAGE plpgsql AS $$BEGIN PERFORM m.look('cast to json'); RETURN '1'; END$$;
CREATE CAST (m.t AS text) WITH FUNCTION cast_t AS IMPLICIT;
CREATE CAST (m.k AS text) WITH FUNCTION cast_k;
CREATE CAST (m.c AS text) WITH FUNCTION cast_c AS ASSIGNMENT;
CREATE CAST (m.e AS text) WITH FUNCTION cast_e AS IMPLICIT;
CREATE CAST (m.r AS text) WITH FUNCTION cast_r AS IMPLICIT;
CREATE CAST (m.d AS text) WITH FUNCTION cast_d AS IMPLICIT;
CREATE CAST (m.of_xml AS text) WITH FUNCTION cast_x;
CREATE CAST (m.e[] AS text) WITH FUNCTION cast_es AS IMPLICIT;
CREATE CAST (m.span AS text) WITH FUNCTION cast_s AS IMPLICIT;
CREATE CAST (m.e AS json) WITH FUNCTION json_e;

CREATE FUNCTION same(m.e, m.e) RETURNS bool LANGUAGE plpgsql AS $$BEGIN PERFORM m.look('operator'); RETURN true; END$$;
CREATE FUNCTION same(m.r, m.r) RETURNS bool LANGUAGE plpgsql AS $$BEGIN PERFORM m.look('operator'); RETURN true; END$$;
CREATE FUNCTION same(m.t, m.t) RETURNS bool LANGUAGE plpgsql AS $$BEGIN PERFORM m.look('operator'); RETURN true; END$$;
CREATE OPERATOR = (LEFTARG = m.e, RIGHTARG = m.e, FUNCTION = same);
CREATE OPERATOR = (LEFTARG = m.r, RIGHTARG = m.r, FUNCTION = same);
CREATE OPERATOR < (LEFTARG = m.e, RIGHTARG = m.e, FUNCTION = same);
CREATE OPERATOR = (LEFTARG = m.t, RIGHTARG = m.t, FUNCTION = same);
CREATE FUNCTION count(m.t) RETURNS bigint LANGUAGE sql AS $$SELECT m.look('function')::text::bigint$$;
CREATE FUNCTION row_digest(m.t) RETURNS bigint LANGUAGE plpgsql AS $$BEGIN PERFORM m.look('function'); RETURN 1; END$$;

CREATE TABLE acts (i int PRIMARY KEY, g int GENERATED ALWAYS AS (m.f(i, 'generated')) STORED, h int DEFAULT m.f(1, 'default'),
	s span, CHECK (m.f(i, 'check') > 0), EXCLUDE (m.f(h + i, 'exclusion') WITH =) WHERE (m.f(i, 'predicate') > 0) DEFERRABLE INITIALLY DEFERRED);
CREATE INDEX ON acts (m.f(h, 'index'));
CREATE INDEX ON acts USING gist (s);
CREATE FUNCTION fires() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN PERFORM m.look('trigger'); RETURN NULL; END$$;
CREATE TRIGGER fires AFTER INSERT OR DELETE OR UPDATE ON acts FOR EACH ROW EXECUTE FUNCTION fires();
ALTER TABLE acts ENABLE ALWAYS TRIGGER fires;
CREATE CONSTRAINT TRIGGER later AFTER INSERT OR DELETE ON acts DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION fires();
ALTER TABLE acts ENABLE ALWAYS TRIGGER later;
CREATE RULE ruled AS ON DELETE TO t DO ALSO SELECT m.look('rule');
ALTER TABLE t ENABLE ALWAYS RULE ruled;
CREATE POLICY p ON t USING (m.f(1, 'policy') > 0);
ALTER TABLE t ENABLE ROW LEVEL SECURITY;
ALTER TABLE t FORCE ROW LEVEL SECURITY;
CREATE MATERIALIZED VIEW mv AS SELECT m.f(1, 'materialized view') AS i;
CREATE UNIQUE INDEX ON mv (m.f(i, 'index'));
CREATE FOREIGN TABLE far (i int) SERVER far;
CREATE VIEW view AS SELECT m.f(1, 'view') AS i, 'text'::text AS v;

INSERT INTO t VALUES (1, 'one');
INSERT INTO k VALUES ('a', 'a', 1, '(1)', '[1,5)', '<a/>', 'one');
INSERT INTO c VALUES ('(1,one)', '{a,b}', '{(1)}');
INSERT INTO acts (i, s) SELECT i, m.span(i, i + 5) FROM generate_series(1, 20) i;
SQL
$c->drain;

# What was called on a node since the last time, and by superusers.
my @seen = (0, 0, 0);

sub none_was_superuser
{
	my ($what) = @_;
	for my $node ($c->all)
	{
		my $log = substr($c->node_log($node), $seen[$node]);
		my %as_superuser = map { $_ => 1 } $log =~ /LOOK (.*?) super=t/g;
		$seen[$node] += length $log;
		is(join(', ', sort keys %as_superuser), '', "$what: n$node called nothing of mallory's as a superuser");
	}
}

none_was_superuser('applied');

# Rows that only n2 has, and others that it lacks.
$c->sql_local(2, "$mallory SET search_path = m, pg_catalog;" . <<'SQL');
INSERT INTO t VALUES (2, 'two of n2');
INSERT INTO k VALUES ('b', 'b', 2, '(2)', '[2,5)', '<b/>', 'two of n2');
UPDATE k SET v = 'one of n2', x = '<c/>' WHERE d = 1;
UPDATE c SET es = '{c}';
INSERT INTO acts (i, s) SELECT i, m.span(i, i + 5) FROM generate_series(101, 110) i;
DELETE FROM acts WHERE i < 5;
SQL
none_was_superuser('planted');

my ($json, $err, $rc) = $c->ctl('verify', '--json');
is($rc, 1, 'they differ') or diag("$json\n$err");
none_was_superuser('verify');
my %rows = map { $_->{object} => $_->{rows} } @{ (eval { JSON::PP::decode_json($json) } // {})->{differences} // [] };
is_deeply([ sort keys %rows ], [ 'm.acts', 'm.c', 'm.k', 'm.t' ], 'these tables');
is_deeply($rows{'m.t'}, [ { row => '(2,"two of n2")', nodes => { n1 => 0, n2 => 1 } } ], 'a row without key is shown as it is');
is_deeply([ sort { $a->{row} cmp $b->{row} } @{ $rows{'m.c'} } ],
	[ { row => '("(1,one)","{a,b}","{(1)}")', nodes => { n1 => 1, n2 => 0 } }, { row => '("(1,one)",{c},"{(1)}")', nodes => { n1 => 0, n2 => 1 } } ],
	'and one of composite values and arrays');
is_deeply(
	$rows{'m.k'},
	[
		{ key => '(a,a,1,"(1)","[1,5)")', nodes => { n1 => '(a,a,1,"(1)","[1,5)",<a/>,one)', n2 => '(a,a,1,"(1)","[1,5)",<c/>,"one of n2")' } },
		{ key => '(b,b,2,"(2)","[2,5)")', nodes => { n1 => undef, n2 => '(b,b,2,"(2)","[2,5)",<b/>,"two of n2")' } },
	],
	'so are keys, in their order, and rows that have one');
unlike($json, qr/nothing to see/, 'no text of mallory\'s');

$c->sql($_, 'SELECT count(*) FROM lockstep.fingerprint()') for 1, 2;
none_was_superuser('fingerprint');
my ($out);
($out, $err, $rc) = $c->ctl('verify', '--indexes');
is($rc, 1, 'indexes were looked at') or diag("$out\n$err");
none_was_superuser('verify --indexes');

# A view that takes a table's place after the tables were listed is refused, as whatever
# else a query names of mallory's.
for my $read ("SELECT count(*), sum(lockstep.row_digest(t.*)) FROM ONLY m.view t", "SELECT ROW(t.*)::text FROM ONLY m.view t",
	"COPY (SELECT * FROM ONLY m.view) TO STDOUT", "SELECT (t.*)::text FROM ONLY m.t t",
	"SELECT count(*) FROM m.far", "SELECT count(i::m.d) FROM ONLY m.t", "SELECT count(*) FROM m.k WHERE e OPERATOR(m.=) e", "SELECT 1 ORDER BY m.f(1, 'sorted')")
{
	$c->fails(1, "SELECT lockstep.verify_start(); $read", '42501', qr/mallory/, "refused: $read", options => '-c search_path=pg_catalog');
}
none_was_superuser('a view');

($out, $err, $rc) = $c->ctl('verify', '--repair', 'n2');
is($rc, 0, 'repaired') or diag("$out\n$err");
none_was_superuser('repair');
$c->same('after the repair');
$c->node_logs(2, qr/LOOK index super=f/, 'his index is made with his rights');

$c->down;
done_testing();
