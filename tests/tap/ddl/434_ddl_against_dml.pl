# DDL on one node while another writes the table, each kind against each, in both orders: the
# command comes while the writer's transaction is open, and the writer comes while the
# command's is.  Nobody gets an error but 40001 (or what the new definition says); who repeats it
# gets through; afterwards every node has the same tables and rows.
# LOCKSTEP_LONG: more kinds of both.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use Test::More;

my $c = LockstepCluster->new(nodes => 3, conf => "lockstep.queue_after = 0\n");
$c->sql(1, 'CREATE DOMAIN positive AS int CHECK (VALUE > -1000000); CREATE TABLE target (id int PRIMARY KEY); INSERT INTO target SELECT generate_series(0, 20)');
my ($a, $b) = ($c->session(1), $c->session(2));

# :t is the table.  What may go wrong with the writer for good, by its SQLSTATE.
my @ddl = (
	[ 'ALTER TABLE :t ADD w int DEFAULT 7' ],
	[ 'ALTER TABLE :t DROP v', qr/42703|42601/ ],
	[ 'ALTER TABLE :t ALTER v TYPE bigint' ],
	[ 'CREATE UNIQUE INDEX ON :t (v, id)' ],
	[ 'ALTER TABLE :t ADD CHECK (v < 50) NOT VALID', qr/23514/ ],
	[ 'ALTER TABLE :t ADD FOREIGN KEY (v) REFERENCES target NOT VALID', qr/23503/ ],
	[ 'TRUNCATE :t' ],
	[ 'DROP TABLE :t', qr/42P01/ ],
	[ 'ALTER TABLE :t RENAME TO :t_renamed', qr/42P01/ ],
);
my @more = (
	[ 'ALTER TABLE :t ADD CONSTRAINT c CHECK (v > -100) NOT VALID; ALTER TABLE :t VALIDATE CONSTRAINT c', qr/23514/ ],
	[ 'ALTER TABLE :t ALTER v TYPE positive' ],
	[ 'ALTER TABLE :t RENAME v TO renamed', qr/42703/ ],
	[ 'ALTER TABLE :t ALTER v SET NOT NULL' ],
	[ 'CREATE INDEX ON :t (v)' ],
	[ 'ALTER TABLE :t DROP CONSTRAINT :t_pkey', qr/42P10/ ],
	[ 'CREATE TRIGGER tr BEFORE UPDATE ON :t FOR EACH ROW EXECUTE FUNCTION suppress_redundant_updates_trigger()' ],
	[ 'ALTER TABLE :t SET SCHEMA other', qr/42P01/ ],
	[ 'ALTER TABLE :t ENABLE ROW LEVEL SECURITY' ],
);
my @dml = ('INSERT INTO :t VALUES (100, 10)', 'UPDATE :t SET v = v + 100 WHERE id = 3', 'DELETE FROM :t WHERE id = 4');
my @more_dml = ('INSERT INTO :t VALUES (3, 60) ON CONFLICT (id) DO UPDATE SET v = excluded.v', 'SELECT FROM :t WHERE id = 5 FOR UPDATE; INSERT INTO target VALUES (:n + 1000)');
if ($ENV{LOCKSTEP_LONG})
{
	push @ddl, @more;
	push @dml, @more_dml;
	$c->sql(1, 'CREATE SCHEMA other');
}

my $n = 0;
my (@tables, @todo);
for my $ddl (@ddl)
{
	push @todo, map { [ $ddl, $_, 'writer first' ], [ $ddl, $_, 'command first' ] } @dml;
}
# all at once: a table for each
$c->sql(1, join '', map { "CREATE TABLE t$_ (id int PRIMARY KEY, v int); INSERT INTO t$_ SELECT i, i FROM generate_series(1, 10) i;" } 1 .. @todo);
$c->drain;

sub code { return $_[0] =~ /ERROR:  (\w{5}):/ ? $1 : $_[0] eq '' ? '' : "? $_[0]" }

my %seen;
for my $case (@todo)
{
	my ($kind, $dml, $order) = @$case;
	my ($ddl, $final) = @$kind;
	$n++;
	s/:t/t$n/g, s/:n/$n/g for $ddl, $dml;
	my $name = "$order: $ddl | $dml";
	my $error;
	if ($order eq 'writer first')
	{
		$b->do("BEGIN; $dml");
		$a->query($ddl, 60);
		is($a->error, '', "$name: the command");
		$b->query('COMMIT', 60);
		$error = code($b->error);
		$b->query('ROLLBACK') if $error ne '';
		like($error, qr/^(?:40001)?$/, "$name: the writer loses, or was first");
	}
	else
	{
		$a->do("BEGIN; $ddl", 60);
		$b->send("BEGIN; $dml; COMMIT");
		$b->blocked(0.05);
		$a->query('COMMIT', 60);
		is($a->error, '', "$name: the command");
		$b->finish(60);
		$error = code($b->error);
		$b->query('ROLLBACK') if $error ne '';
		like($error, $final ? qr/^(?:40001|$final)?$/ : qr/^(?:40001)?$/, "$name: the writer waits, or loses");
	}
	$seen{$error || 'commits'}++;
	next if $error ne '40001';
	for my $try (1 .. 5)
	{
		$b->query("BEGIN; $dml; COMMIT", 60);
		$error = code($b->error);
		last if $error eq '';
		$b->query('ROLLBACK');
		last if $error ne '40001';
	}
	like($error, $final ? qr/^(?:$final)?$/ : qr/^$/, "$name: repeated, it gets through");
}
note(join ', ', map { "$_: $seen{$_}" } sort keys %seen);
$c->same('all nodes are equal');
$c->down;
done_testing;
