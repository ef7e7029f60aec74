# A cluster moves to a new major version of PostgreSQL as docs/operating.md says:
# drained and stopped, pg_upgrade of each node, started again with the replicator
# and the journal that it had.  Nothing is lost, each node knows where it stands,
# sequences go on, and the nodes are equal.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../tap";
use LockstepCluster;
use Test::More;

my $old = $ENV{LOCKSTEP_OTHER_PG_CONFIG} // '/usr/lib/postgresql/15/bin/pg_config';
my ($version, $old_bin, $share) = map { my $v = `$old $_`; chomp $v; $v } ('--version', '--bindir', '--sharedir');
plan skip_all => 'no other server' if $version eq '';
plan skip_all => "lockstep is not installed for $version" unless -e "$share/extension/lockstep.control";
my $new = $ENV{PG_CONFIG} // 'pg_config';
my $new_bin = $LockstepCluster::bindir;
my ($from, $to) = map { /(\d+)/ } $version, scalar `$new_bin/postgres --version`;
plan skip_all => "it is no older version" if $from >= $to;

# 15.20 and its contemporaries keep an option of columns (pg_attver) that pg_dump of
# older minor releases writes as a plain one, which their servers refuse.
plan skip_all => "pg_upgrade to this minor release can't read columns of $version (pg_attver): take a newer one"
	if knows_attver($old_bin) && !knows_attver($new_bin);

sub knows_attver
{
	my ($bin) = @_;
	open(my $f, '<:raw', "$bin/postgres") or die "$bin/postgres: $!";
	local $/;
	return index(<$f>, 'pg_attver') >= 0;
}

# ---------- with the old version

$ENV{PG_CONFIG} = $old;
$LockstepCluster::bindir = $old_bin;
my $c = LockstepCluster->new(nodes => 2);
$c->sql(1, q{CREATE TABLE t (id serial PRIMARY KEY, v text, at timestamptz DEFAULT now());
	CREATE TYPE mood AS ENUM ('low', 'high'); CREATE TABLE m (id int GENERATED ALWAYS AS IDENTITY, how mood, UNIQUE (id));
	CREATE ROLE someone; GRANT SELECT ON t TO someone; SELECT lo_from_bytea(0, 'of the old version')});
$c->drain;
$c->sql($_, "INSERT INTO t (v) SELECT 'n$_' FROM generate_series(1, 100); INSERT INTO m (how) VALUES ('high')") for $c->all;
$c->same("PostgreSQL $from");
my $decided = $c->status->{journal}{decided};
my $largest = $c->sql(1, 'SELECT max(id) FROM t');

# ---------- pg_upgrade

$c->cluster('stop-replicator');
$c->cluster('stop-node', $_) for $c->all;
$ENV{PG_CONFIG} = $new;
$LockstepCluster::bindir = $new_bin;
my $checksums = $to >= 18 ? ['--no-data-checksums'] : [];
for my $node ($c->all)
{
	my $data = $c->pgdata($node);
	my ($rc, $out) = $c->run_owned("$new_bin/initdb", '-D', "$data.new", '-U', 'postgres', '-A', 'trust', '-E', 'UTF8',
		'--locale=C.UTF-8', '--no-sync', @$checksums);
	is($rc, 0, "n$node: initdb") or diag($out);
	open(my $file, '>>', "$data.new/postgresql.conf") or die $!;
	print $file "include 'lockstep.conf'\n";
	close $file;
	$c->run_owned('cp', "$data/lockstep.conf", "$data.new");
	$c->run_owned('mkdir', '-p', "$c->{dir}/upgrade$node");
	($rc, $out) = $c->run_owned('sh', '-c', "cd $c->{dir}/upgrade$node && exec \"\$@\"", 'sh', "$new_bin/pg_upgrade",
		'-b', $old_bin, '-B', $new_bin, '-d', $data, '-D', "$data.new", '-U', 'postgres', '-p', $c->port($node), '-P', $c->port($node));
	is($rc, 0, "n$node: pg_upgrade") or diag($out);
	$c->run_owned('mv', $data, "$data.old");
	$c->run_owned('mv', "$data.new", $data);
}

# ---------- with the new version

$c->cluster('start-node', $_) for $c->all;
$c->cluster('start-replicator');
ok($c->cluster('wait-online'), 'the nodes are online');

# (after their start the nodes order positions of their sequences, so it has more by now)
like($c->replicator_log, qr/holds seq 1 to $decided$/m, 'the journal is the old one, and nothing was decided since');
like($c->sql($_, 'SHOW server_version'), qr/^$to/, "n$_ is of the new version") for $c->all;
$c->same('what was there is there');
$c->sql($_, "INSERT INTO t (v) SELECT 'after, n$_' FROM generate_series(1, 10); UPDATE m SET how = 'low'; INSERT INTO m (how) VALUES ('low')") for $c->all;
$c->same("PostgreSQL $to: changes on both nodes");
is($c->sql(2, "SELECT count(*), min(id) > $largest FROM t WHERE v LIKE 'after%'"), '20|t', 'sequences go on after the values that were used');
cmp_ok($c->status->{journal}{decided}, '>', $decided, 'the journal goes on');
is($c->sql(2, "SELECT string_agg(convert_from(lo_get(oid), 'UTF8'), '') FROM pg_largeobject_metadata"), 'of the old version', 'large objects are there');

done_testing();
