# What "lockstepctl doctor" finds: what is wrong with a set-up, each thing by name with what to do, and
# nothing in one that is right.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use JSON::PP;
use Test::More;

my $c = LockstepCluster->new(nodes => 2);

sub doctor_says
{
	my ($pattern, $name) = @_;
	my ($out, $err, $rc) = $c->ctl('doctor');
	is($rc, 1, "$name: exit status");
	like($out, $pattern, $name) or diag($err);
}

# ---------- all is well

my ($out, $err, $rc) = $c->ctl('doctor');
is($rc, 0, 'a cluster that is right') or diag($out . $err);
like($out, qr/2 nodes: 0 problems/, 'has no problem');
($out, undef, $rc) = $c->ctl('--json', 'doctor');
is(decode_json($out)->{problems}, 0, 'as JSON, too');

# ---------- files

my $secret = "$c->{dir}/secret";
$secret = (grep { -f } glob("$c->{dir}/*secret*"))[0];
chmod 0644, $secret;
doctor_says(qr/PROBLEM  replicator: everybody can read the secret.*\n\s+chmod 600/, 'a secret that all can read');
chmod 0600, $secret;

# ---------- what a user has named

$c->sql(1, 'CREATE TABLE twice (v int); INSERT INTO twice VALUES (1), (1)');
$c->try(1, qq{CREATE UNIQUE INDEX CONCURRENTLY "x\nPROBLEM  n2: \e[31mred" ON twice (v)});
($out, undef, $rc) = $c->ctl('doctor');
is($rc, 0, 'an invalid index is no problem');
like($out, qr/^warning  n1: index public\."x\\nPROBLEM  n2: \\x1b\[31mred" of database app is invalid\n\s+REINDEX/m, 'but a warning, in one line that a terminal does not obey');
unlike($out, qr/\e|^PROBLEM/m, 'nowhere');

# ---------- nodes

$c->edit_replicator_conf(sub { s/^(node\.n2 = ')/${1}password=geheim /m or die $_ });
chmod 0644, $c->replicator_conf;
doctor_says(qr/has passwords, and everybody can read it/, 'passwords that all can read');
chmod 0640, $c->replicator_conf;
$c->ctl('drop', 'n2');
doctor_says(qr/PROBLEM  n2: the node is dropped: dropped by command\n\s+\S/, 'a dropped node');
$c->ctl('attach', 'n2');
ok($c->wait_state(2, 'online'), 'n2 is online');

# one connection string leads to the other node
my ($port1, $port2) = ($c->port(1), $c->port(2));
my $conf = $c->replicator_conf;
$c->edit_replicator_conf(sub { s/port=$port2/port=$port1/ or die $_ });
doctor_says(qr/PROBLEM  n2: lockstep\.node_name of that server is 'n1'\n.*correct node\.n2 in replicator\.conf/, 'a line that names another server');
$c->edit_replicator_conf(sub { s/^(node\.n2 .*)port=$port1/${1}port=1/m or die $_ });
doctor_says(qr/PROBLEM  n2: could not connect to database.*\n\s+See node\.NAME/, 'a port where nothing is');
$c->edit_replicator_conf(sub { s/^(node\.n2 .*)port=1/${1}port=$port2/m or die $_ });

# the way back
$c->set(2, 'lockstep.replicator', "'127.0.0.1:1'");
doctor_says(qr/PROBLEM  n2: way to the replicator: the replicator is not reachable/, 'a node that does not reach the replicator');
$c->sql_local(2, 'ALTER SYSTEM RESET lockstep.replicator');
$c->sql_local(2, 'SELECT pg_reload_conf()');

# ---------- the replicator

$c->cluster('stop-replicator');
doctor_says(qr/PROBLEM  replicator: it does not answer at .*\n\s+Look at its log/, 'no replicator');
done_testing;
