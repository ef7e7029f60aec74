# Sequences, serial and identity columns on three nodes at once: no value is handed
# out twice, wherever it is asked for; setval, RESTART and renames count for all
# nodes; afterwards the sequences are equal on every node, and nowhere below a value
# that was handed out, rolled back or not; a dump of any node restores safely.  So it is
# when a sequence is set anew just after it was used, and when C code calls nextval.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use IPC::Run ();
use LockstepCluster;
use Test::More;

my $c = LockstepCluster->new(nodes => 3);
$c->sql(1, <<'SQL');
CREATE TABLE t (id serial PRIMARY KEY, node int NOT NULL, v text);
CREATE TABLE i (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, node int NOT NULL);
CREATE TABLE seen (sequence text, v bigint, node int);
CREATE SEQUENCE s;
CREATE SEQUENCE down INCREMENT -3 MAXVALUE 1000 START 1000;
CREATE SEQUENCE cached CACHE 20;
SQL
$c->drain;

sub positions
{
	my ($node) = @_;
	return $c->sql($node, join(' UNION ALL ', map { "SELECT '$_', last_value, is_called FROM $_" } qw(s down cached t_id_seq i_id_seq)));
}

# ---------- one after the other, from node to node

is($c->sql(1, "SELECT nextval('s'), nextval('s')"), '1|2', 'the first values are those of a server alone');
my %given = (1 => 1, 2 => 1);
for my $round (1 .. 4)
{
	for my $node (2, 3, 1)
	{
		my $v = $c->sql($node, "SELECT nextval('s')");
		ok(!$given{$v}++, "n$node gets $v, which nobody had");
	}
}
$c->same('equal');
my ($highest) = sort { $b <=> $a } keys %given;
is($c->sql(2, 'SELECT last_value FROM s'), $highest, 'the position is the highest value of all');

# ---------- everybody at once

my $script = $c->file('load.sql', <<'SQL');
\set r random(1, 10)
BEGIN;
INSERT INTO t (node, v) VALUES (:node, 'x');
INSERT INTO i (node) VALUES (:node);
INSERT INTO t (node, v) SELECT :node, 'y' FROM generate_series(1, :r);
INSERT INTO seen VALUES ('s', nextval('s'), :node), ('down', nextval('down'), :node), ('cached', nextval('cached'), :node);
\if :r > 7
ROLLBACK;
\else
COMMIT;
\endif
SQL
my @runs = map { [ $_, $c->pgbench_start($_, '-n', '-f', $script, '-D', "node=$_", '-c', 4, '-t', 60, '--max-tries=100') ] } $c->all;
for (@runs)
{
	my ($node, $run) = @$_;
	$run->{handle}->finish;
	unlike(${ $run->{text} }, qr/aborted|ERROR/, "inserts on n$node") or diag(${ $run->{text} });
}
is($c->sql(1, 'SELECT count(DISTINCT node) FROM t'), 3, 'rows of all nodes');
$c->same('equal after inserts on all nodes, some rolled back');
is(positions($_), positions(1), "all positions of n$_ are those of n1") for 2, 3;
for (['t_id_seq', 'SELECT max(id) FROM t'], ['i_id_seq', 'SELECT max(id) FROM i'], [ 's', "SELECT max(v) FROM seen WHERE sequence = 's'" ],
	[ 'cached', "SELECT max(v) FROM seen WHERE sequence = 'cached'" ])
{
	my ($sequence, $max) = @$_;
	is($c->sql(3, "SELECT last_value >= ($max) FROM $sequence"), 't', "$sequence is not below what was handed out");
}
is($c->sql(2, "SELECT last_value <= (SELECT min(v) FROM seen WHERE sequence = 'down') FROM down"), 't', 'nor above, where it goes down');
is($c->sql(1, 'SELECT count(*) FROM (SELECT FROM seen GROUP BY sequence, v HAVING count(*) > 1) x'), 0, 'no value of a sequence twice');
cmp_ok($c->sql(1, 'SELECT count(*) FROM seen'), '>', 500, 'of many');

# ---------- COPY, DEFAULT, functions

my @copies;
for my $node ($c->all)
{
	my $text = '';
	my $in = "COPY t (node, v) FROM stdin;\n" . join('', map { "$node\tcopied\n" } 1 .. 3000) . "\\.\n"
		. "COPY i (node) FROM stdin;\n" . join('', map { "$node\n" } 1 .. 3000) . "\\.\n"
		. "UPDATE t SET id = DEFAULT WHERE id IN (SELECT id FROM t WHERE v = 'copied' AND node = $node LIMIT 20);\n";
	push @copies, [ $node, \$text, IPC::Run::start([ $c->client($node, 'psql'), '-X', '-q', '-v', 'ON_ERROR_STOP=1', $c->{db} ], '<', \$in, '>&', \$text) ];
}
for (@copies)
{
	my ($node, $text, $run) = @$_;
	ok($run->finish, "COPY into serial and identity columns on n$node") or diag($$text);
}
$c->same('equal after COPY on all nodes');
is($c->sql(1, "SELECT count(*) FROM t WHERE v = 'copied'"), 9000, 'all rows are there');

# ---------- setval, RESTART, names

$c->sql(2, "SELECT setval('s', 1000000)");
is($c->sql(2, "SELECT nextval('s')"), 1000001, 'setval counts at once');
$c->drain;
for my $node (1, 3)
{
	cmp_ok($c->sql($node, "SELECT nextval('s')"), '>', 1000001, "also on n$node, which had values left");
}
my $session = $c->session(3);
is($session->query("BEGIN; INSERT INTO t (node, v) VALUES (3, 'gone')"), '', 'a transaction begins') or diag($session->error);
is($session->query("SELECT setval('s', 50, false)"), '50', 'and sets a value') or diag($session->error);
$session->query('ROLLBACK');
$c->drain;
is($c->sql(1, 'SELECT last_value, is_called FROM s'), '50|f', 'setval stays when its transaction is rolled back');
is($c->sql(2, "SELECT nextval('s')"), 50, 'and is where it goes on');

is($session->query("BEGIN; ALTER SEQUENCE s RESTART WITH 7000"), '', 'RESTART in a transaction') or diag($session->error);
$session->query('ROLLBACK');
cmp_ok($c->sql(1, "SELECT nextval('s')"), '<', 7000, 'RESTART that is rolled back is none');
$c->sql(3, 'ALTER SEQUENCE s RESTART WITH 7000 INCREMENT BY 10');
$c->drain;
my %after = map { $c->sql($_, "SELECT nextval('s')") => 1 } $c->all;
is(scalar(keys %after), 3, 'three values after RESTART');
is(scalar(grep { $_ < 7000 || $_ % 10 } keys %after), 0, 'all of them new ones');
$c->sql(2, 'ALTER SEQUENCE s RENAME TO s2; CREATE SEQUENCE s');
$c->drain;
is($c->sql(1, "SELECT nextval('s')"), 1, 'another sequence of the old name');
my $v = $c->sql(3, "SELECT nextval('s2')");
ok($v >= 7000 && !$after{$v}, 'the renamed one goes on');
$c->sql(1, "BEGIN; TRUNCATE t RESTART IDENTITY; INSERT INTO t (node, v) VALUES (1, 'first'); COMMIT");
is($c->sql(1, 'SELECT id FROM t'), 1, 'TRUNCATE ... RESTART IDENTITY');
$c->drain;
$c->sql(2, "INSERT INTO t (node, v) VALUES (2, 'second')");
$c->same('equal after all that');

# ---------- a dump of any node

$c->sql(1, "INSERT INTO t (node, v) VALUES (1, 'before the dump')");
$c->drain;
for my $node ($c->all)
{
	my ($dump, $err) = ('', '');
	IPC::Run::run([ $c->client($node, 'pg_dump'), '--data-only', '-t', 't', '-t', 't_id_seq', $c->{db} ], '>', \$dump, '2>', \$err);
	my ($set) = $dump =~ /setval\('public\.t_id_seq', (\d+), true\)/;
	cmp_ok($set // 0, '>=', $c->sql($node, 'SELECT max(id) FROM t'), "a dump of n$node sets the sequence behind its rows");
}
$c->sql(3, "DROP SEQUENCE s; DROP TABLE i; CREATE TABLE i (id int GENERATED BY DEFAULT AS IDENTITY, node int)");
$c->drain;
is($c->sql(2, 'INSERT INTO i (node) VALUES (2) RETURNING id') =~ s/\n.*//r, 1, 'a table made anew begins anew');
$c->same('equal at the end');

# ---------- set anew just after it was used
#
# What was handed out before, and was not known to the other nodes yet, does not come after it: a position outside of
# the sequence's new bounds would be ordered, and it could not be used any more on any node.

my $n = 8;
my $resetter = $c->session(1);

$resetter->do("CREATE SEQUENCE reset$_ INCREMENT -4 MINVALUE -36 MAXVALUE -24 START -24") for 1 .. $n;
for my $i (1 .. $n)
{
	$resetter->do("SELECT nextval('reset$i')") for 1 .. 4;
	$resetter->do("ALTER SEQUENCE reset$i RESTART WITH 32 START WITH 32 INCREMENT BY 4 MAXVALUE 36 MINVALUE 5 CYCLE");
}
$c->same('set anew');
is($c->sql($_, "SELECT count(last_value) FROM pg_sequences WHERE sequencename ~ '^reset'"), 0, "node $_: as if none had been used") for $c->all;
is($c->sql(1 + $_ % 2, "SELECT nextval('reset$_')"), 32, 'the first value is the new one') for 1 .. $n;
$c->same('used again');

# ---------- a module that calls nextval as a C function, not by SQL (contrib's autoinc)

SKIP:
{
	my $config = $ENV{PG_CONFIG} // 'pg_config';
	skip 'autoinc is not installed', 1 if !-e `$config --sharedir` =~ s/\n//r . '/extension/autoinc.control';
	$c->sql(1, <<'SQL');
CREATE EXTENSION autoinc;
CREATE SCHEMA "odd one";
CREATE SEQUENCE q;
CREATE SEQUENCE "odd one".q INCREMENT 10;
CREATE TABLE auto_a (id int, node int);
CREATE TABLE auto_b (id int, node int);
CREATE TRIGGER a BEFORE INSERT ON auto_a FOR EACH ROW EXECUTE FUNCTION autoinc(id, q);
CREATE TRIGGER b BEFORE INSERT OR UPDATE ON auto_b FOR EACH ROW EXECUTE FUNCTION autoinc(id, '"odd one".q');
SQL
	$c->drain;
	is($c->sql(1, 'INSERT INTO auto_a (node) VALUES (1), (1), (1) RETURNING id'), "1\n2\n3", 'the first values are those of a server alone');
	is($c->sql(1, 'INSERT INTO auto_a (node) VALUES (1) RETURNING id'), 4, 'and go on');
	is($c->sql(1, "SELECT nextval('q'), currval('q'), lastval()"), '5|5|5', 'together with those asked for by SQL');
	is($c->sql(1, "INSERT INTO auto_a (node) VALUES (1); SELECT currval('q'), lastval()"), '6|6', 'which are known in the session');
	my @busy = map { $c->session($_) } 1, 2;
	for my $round (1 .. 5)
	{
		$busy[$_ - 1]->send("INSERT INTO auto_a (node) SELECT $_ FROM generate_series(1, 60); INSERT INTO auto_b (node) VALUES ($_)") for 1, 2;
		for my $s (@busy)
		{
			$s->finish(60);
			is($s->error, '', 'no error');
		}
	}
	$_->close for @busy;
	$c->drain;
	is($c->sql($_, 'SELECT count(*) - count(DISTINCT id) FROM auto_a'), 0, "no value twice on node $_") for $c->all;
	is($c->sql($_, 'SELECT count(*) - count(DISTINCT id), count(*) FROM auto_b'), '0|10', "nor in the other table on node $_") for $c->all;
	is($c->sql($_, 'SELECT last_value >= (SELECT max(id) FROM auto_a) FROM q'), 't', "the position is not behind on node $_") for $c->all;
	$c->sql(1, "SELECT setval('q', 10000)");
	$c->drain;
	is($c->sql(2, 'INSERT INTO auto_a (node) VALUES (2) RETURNING id'), 10001, 'setval counts');

	# in a session that keeps its changes, and for temporary sequences, PostgreSQL's own
	is($c->sql(1, 'CREATE TEMP SEQUENCE t; CREATE TEMP TABLE tt (id int); CREATE TRIGGER tt BEFORE INSERT ON tt FOR EACH ROW EXECUTE FUNCTION autoinc(id, t); INSERT INTO tt VALUES (0), (NULL) RETURNING id'),
		"1\n2", 'a temporary sequence');
	is($c->sql(1, 'BEGIN; CREATE SEQUENCE n; CREATE TABLE nt (id int); CREATE TRIGGER nt BEFORE INSERT ON nt FOR EACH ROW EXECUTE FUNCTION autoinc(id, n); INSERT INTO nt VALUES (0), (NULL) RETURNING id; COMMIT'),
		"1\n2", 'a sequence of this transaction');
	$c->same('equal after autoinc');
}

# ---------- commands that lock the sequences of a table are not rolled back for their positions, which are ordered at any time

my @commands = (
	'DROP TABLE own', 'ALTER TABLE own DROP id', 'ALTER TABLE own SET SCHEMA elsewhere', 'ALTER TABLE own OWNER TO other', 'ALTER TABLE own ALTER n DROP IDENTITY',
);
$c->sql(1, 'CREATE SCHEMA elsewhere; CREATE ROLE other');
for my $command (@commands)
{
	$c->sql(1, 'DROP TABLE IF EXISTS own, elsewhere.own; CREATE TABLE own (id serial, n int GENERATED ALWAYS AS IDENTITY, v int)');
	my $s = $c->session(1);
	$s->query("SELECT nextval('own_id_seq'), nextval('own_n_seq'); BEGIN; $command");
	ok($c->wait_sql(1, "SELECT count(*) > 0 FROM lockstep.waits WHERE pid IS NULL AND kind = 'reservation'", 't', 20), "$command: the positions wait");
	$s->query('COMMIT');
	is($s->error, '', '... and the command is carried out');
	$s->close;
}
$c->sql(1, 'DROP TABLE IF EXISTS own, elsewhere.own; DROP SCHEMA elsewhere; DROP ROLE other');

# ---------- names are exchanged and taken: whoever asks, no value comes twice

$c->sql(1, 'CREATE SCHEMA ex; CREATE SEQUENCE ex.x; CREATE SEQUENCE ex.y START 100001; CREATE SEQUENCE ex.z START 200001');
my %was;
my $take = sub
{
	my ($what, @sequences) = @_;
	my @values = map { my $node = $_; map { $c->sql($node, "SELECT nextval('ex.$_') FROM generate_series(1, 40)") } @sequences } $c->all, $c->all;
	my @twice = grep { $was{$_}++ } map { split /\n/ } @values;
	is("@twice", '', "$what: no value twice");
};
$take->('at first', qw(x y z));
$c->sql(1, 'BEGIN; ALTER SEQUENCE ex.x RENAME TO t; ALTER SEQUENCE ex.y RENAME TO x; ALTER SEQUENCE ex.t RENAME TO y; COMMIT');
$take->('exchanged', qw(x y z));
is($c->sql(2, "SELECT nextval('ex.x') > 100000 AND nextval('ex.y') < 100000"), 't', 'each under the other name');
$c->sql(2, 'BEGIN; DROP SEQUENCE ex.y; ALTER SEQUENCE ex.x RENAME TO y; CREATE SEQUENCE ex.x START 300001; COMMIT');
$take->('dropped, taken, made anew', qw(x y z));
$c->sql(1, 'BEGIN; DROP SEQUENCE ex.z; ALTER SEQUENCE ex.y RENAME TO z; COMMIT');
$take->('the name of one that is dropped is taken', qw(x z));
$c->sql(2, 'BEGIN; ALTER SEQUENCE ex.x OWNER TO CURRENT_USER; ALTER SEQUENCE ex.x RENAME TO u; ALTER SCHEMA ex RENAME TO ey; CREATE SCHEMA ex; ALTER SEQUENCE ey.u SET SCHEMA ex; ALTER SEQUENCE ey.z SET SCHEMA ex; COMMIT');
$take->('with their schema', qw(u z));
my $own = $c->sql(1, "BEGIN; ALTER SCHEMA ex RENAME TO ez; ALTER SEQUENCE ez.u RENAME TO v; SELECT nextval('ez.z') FROM generate_series(1, 40); SELECT nextval('ez.v') FROM generate_series(1, 40); ALTER SCHEMA ez RENAME TO ex; COMMIT");
is(join(' ', grep { $was{$_}++ } split /\n/, $own), '', 'taken by the transaction that renames them: no value twice');
$take->('afterwards', qw(v z));
$c->same('after all');

# ---------- altered: it goes on behind what any node has handed out

$c->sql(1, 'CREATE TABLE al (id int GENERATED BY DEFAULT AS IDENTITY, v int)');
%was = ();
my $in_turn = sub
{
	my ($what, $n, @nodes) = @_;
	my @values = map { split /\n/, $c->sql($_, "SELECT nextval('al_id_seq') FROM generate_series(1, $n)") } @nodes;
	my @twice = grep { $was{$_}++ } @values;
	is("@twice", '', "$what: no value twice");
	return @values;
};
is(join(' ', $in_turn->('a node by itself', 3, 1)), '1 2 3', 'one after the other');
$c->sql(1, 'ALTER SEQUENCE al_id_seq CACHE 2');
is(join(' ', $in_turn->('altered there', 3, 1)), '4 5 6', 'without a gap');
for my $alter ('ALTER SEQUENCE al_id_seq CACHE 1', 'ALTER SEQUENCE al_id_seq MAXVALUE 1000000', 'ALTER SEQUENCE al_id_seq AS bigint', 'ALTER SEQUENCE al_id_seq INCREMENT 2',
	'ALTER TABLE al ALTER id SET CACHE 3 SET INCREMENT 1', 'ALTER TABLE al ALTER id TYPE bigint', 'ALTER SEQUENCE al_id_seq SET UNLOGGED', 'ALTER SEQUENCE al_id_seq SET LOGGED',
	'BEGIN; ALTER SEQUENCE al_id_seq RENAME TO other; ALTER SEQUENCE other START 5; ALTER SEQUENCE other RENAME TO al_id_seq; COMMIT',
	'BEGIN; SAVEPOINT s; ALTER SEQUENCE al_id_seq RESTART; ROLLBACK TO s; ALTER SEQUENCE al_id_seq CACHE 4; COMMIT')
{
	$in_turn->('before', 7, 1, 2, 3, 2);
	$c->sql(1, $alter);
	$in_turn->($alter, 40, 1, 2, 3);
	$in_turn->('and', 3, 2, 3);
	$c->sql(1, 'ALTER SEQUENCE al_id_seq CACHE 1');
	$in_turn->("$alter, and again", 3, 3, 2, 1);
}

# the transaction that alters it, while others go on; it is rolled back, or not
for my $end (qw(COMMIT ROLLBACK))
{
	for my $alter ('CACHE 1', 'MAXVALUE 100000', 'INCREMENT 3', 'CACHE 1')
	{
		$in_turn->('before', 5, 2, 3);
		my $s = $c->session(1);
		$s->do("BEGIN; ALTER SEQUENCE al_id_seq $alter");
		my @values = split /\n/, $s->do("SELECT nextval('al_id_seq') FROM generate_series(1, 50)");
		push @values, split /\n/, $s->do('INSERT INTO al(v) SELECT 1 FROM generate_series(1, 5) RETURNING id');
		is(scalar @values, 55, "$alter: values");
		is($s->do("SELECT currval('al_id_seq') = lastval()"), 't', 'the last one is known');
		push @values, split /\n/, $c->sql($_, "SET lock_timeout = '2s'; SELECT nextval('al_id_seq') FROM generate_series(1, 40)") for 2, 3;
		$s->do($end);
		$s->close;
		is(join(' ', grep { $was{$_}++ } @values), '', "$alter, $end: no value twice");
		$in_turn->('afterwards', 5, 1, 2, 3);
	}
}

# begun anew
for my $restart ('ALTER SEQUENCE al_id_seq RESTART', 'ALTER TABLE al ALTER id RESTART', 'TRUNCATE al RESTART IDENTITY', 'DO $$ BEGIN TRUNCATE al RESTART IDENTITY; END $$',
	'BEGIN; ALTER SEQUENCE al_id_seq RESTART; ALTER SEQUENCE al_id_seq CACHE 1; COMMIT', 'BEGIN; ALTER SEQUENCE al_id_seq CACHE 1; ALTER TABLE al ALTER id RESTART; COMMIT',
	q{BEGIN; ALTER SEQUENCE al_id_seq CACHE 1; SELECT setval('al_id_seq', 5, false); COMMIT})
{
	$c->sql($_, "SELECT nextval('al_id_seq') FROM generate_series(1, 7)") for 1, 2, 3;
	$c->sql(3, $restart);
	is($c->sql(3, "SELECT nextval('al_id_seq')"), 5, $restart);
}
$c->sql(2, 'ALTER SEQUENCE al_id_seq INCREMENT -1');
cmp_ok($c->sql(2, "SELECT nextval('al_id_seq')"), '<=', 5, 'the other way');

# what was handed out elsewhere, and not yet told, is on all pages soon
$c->sql(1, 'CREATE SEQUENCE told');
$c->sql(2, "SELECT nextval('told') FROM generate_series(1, 9)");
$c->sql(1, 'ALTER SEQUENCE told CACHE 1');
ok($c->wait_until(sub { $c->sql($_, 'SELECT last_value FROM told') == 9 or return 0 for 1, 2, 3; 1 }, 5), 'the values of another node are told after it');
$c->same('altered');
done_testing();
