# A module of others that calls nextval as a C function, not by SQL (contrib's autoinc): it
# gets values of the cluster, as everybody does.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use Test::More;

my $c = LockstepCluster->new(nodes => 2);
if (!-e `pg_config --sharedir` =~ s/\n//r . '/extension/autoinc.control')
{
	plan skip_all => 'autoinc is not installed';
}
$c->sql(1, <<'SQL');
CREATE EXTENSION autoinc;
CREATE SCHEMA "odd one";
CREATE SEQUENCE q;
CREATE SEQUENCE "odd one".q INCREMENT 10;
CREATE TABLE a (id int, node int);
CREATE TABLE b (id int, node int);
CREATE TRIGGER a BEFORE INSERT ON a FOR EACH ROW EXECUTE FUNCTION autoinc(id, q);
CREATE TRIGGER b BEFORE INSERT OR UPDATE ON b FOR EACH ROW EXECUTE FUNCTION autoinc(id, '"odd one".q');
SQL
$c->drain;
is($c->sql(1, 'INSERT INTO a (node) VALUES (1), (1), (1) RETURNING id'), "1\n2\n3", 'the first values are those of a server alone');
is($c->sql(1, 'INSERT INTO a (node) VALUES (1) RETURNING id'), 4, 'and go on');
is($c->sql(1, "SELECT nextval('q'), currval('q'), lastval()"), '5|5|5', 'together with those asked for by SQL');
is($c->sql(1, "INSERT INTO a (node) VALUES (1); SELECT currval('q'), lastval()"), '6|6', 'which are known in the session');
my @busy = map { my $s = $c->session($_); $s } 1, 2;
for my $round (1 .. 5)
{
	$busy[$_ - 1]->send("INSERT INTO a (node) SELECT $_ FROM generate_series(1, 60); INSERT INTO b (node) VALUES ($_)") for 1, 2;
	for my $s (@busy)
	{
		$s->finish(60);
		is($s->error, '', 'no error');
	}
}
$_->close for @busy;
$c->drain;
is($c->sql($_, 'SELECT count(*) - count(DISTINCT id) FROM a'), 0, "no value twice on node $_") for 1, 2;
is($c->sql($_, 'SELECT count(*) - count(DISTINCT id), count(*) FROM b'), '0|10', "nor in the other table on node $_") for 1, 2;
is($c->sql($_, 'SELECT last_value >= (SELECT max(id) FROM a) FROM q'), 't', "the position is not behind on node $_") for 1, 2;
$c->sql(1, "SELECT setval('q', 10000)");
is($c->sql(2, 'INSERT INTO a (node) VALUES (2) RETURNING id'), 10001, 'setval counts');

# in a session that keeps its changes, and for temporary sequences, PostgreSQL's own
is($c->sql(1, 'CREATE TEMP SEQUENCE t; CREATE TEMP TABLE tt (id int); CREATE TRIGGER tt BEFORE INSERT ON tt FOR EACH ROW EXECUTE FUNCTION autoinc(id, t); INSERT INTO tt VALUES (0), (NULL) RETURNING id'),
	"1\n2", 'a temporary sequence');
is($c->sql(1, 'BEGIN; CREATE SEQUENCE n; CREATE TABLE nt (id int); CREATE TRIGGER nt BEFORE INSERT ON nt FOR EACH ROW EXECUTE FUNCTION autoinc(id, n); INSERT INTO nt VALUES (0), (NULL) RETURNING id; COMMIT'),
	"1\n2", 'a sequence of this transaction');
$c->same('equal');
done_testing;
