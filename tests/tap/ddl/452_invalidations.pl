# Who waits on a node for a transaction with DDL finds what it has made of the
# catalogs, however long PostgreSQL takes to tell other sessions: a table that was
# dropped is not there when the next of that name is created.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use Test::More;

my $c = LockstepCluster->new(nodes => 2, fault => 1);

$c->set(2, 'lockstep_fault.slow_invalidations' => "'300ms'");
for my $round (1 .. 3)
{
	$c->sql(1, "CREATE TABLE again (id int PRIMARY KEY, round int); CREATE TYPE kind AS ENUM ('a$round')");
	# so that every apply session knows the table
	my @sessions = map { $c->session(1) } 1 .. 6;
	$sessions[$_]->send("INSERT INTO again VALUES ($_, $round)") for 0 .. $#sessions;
	$_->finish, $_->close for @sessions;
	my $s = $c->session(1);
	my @failed;
	for my $sql ('DROP TABLE again', 'CREATE TABLE again (id int PRIMARY KEY, other text)', "INSERT INTO again VALUES (1, 'x')", 'ALTER TABLE again RENAME TO renamed',
		"CREATE TABLE again (k kind)", "INSERT INTO again VALUES ('a$round')", 'DROP TABLE again, renamed', 'DROP TYPE kind')
	{
		$s->query($sql);
		push @failed, "$sql: " . $s->error if $s->error;
	}
	$s->close;
	is("@failed", '', "round $round");
}
is($c->node_status(2)->{state}, 'online', 'the node is online');
$c->set(2, 'lockstep_fault.slow_invalidations' => "'0'");
$c->same('afterwards');

done_testing;
