# With TLS "lockstepctl init" and "join" make certificates: each node gets a certificate of its own, in a join file of its own; all
# connections are encrypted, the server's too; a second run has nothing to do.  Without TLS nothing starts that would
# talk to another machine in the clear, and it says what to set.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use LockstepServers;
use Test::More;

my $s = LockstepServers->new(servers => 2);
my $conf = "$s->{dir}/r/replicator.conf";
my @init = ('init', (map { "n$_=127.0.0.1:" . $s->port($_) } 1, 2), "--replicator=127.0.0.1:$s->{base}", "--config=$conf",
	'--server=port=' . $s->port(1), '--restart', '--tls');
$s->sql(1, 'postgres', 'CREATE DATABASE shop');

my ($rc, $out) = $s->ctl(@init, '--dry-run');
is($rc, 0, 'init --tls --dry-run') or diag($out);
ok(!-e "$s->{dir}/r/ca" && !-e "$s->{dir}/n1/lockstep.tls", 'makes nothing');
($rc, $out) = $s->ctl(@init);
is($rc, 0, 'init --tls') or diag($out);
like($out, qr/join n2 --join-file=FILE .*r\/join-n2/, 'names the join file of n2');
($rc, $out) = $s->ctl(@init);
is($rc, 0, 'again');
like($out, qr/Nothing to do/, 'has nothing to do');
ok(!-e "$s->{dir}/r/join", 'no join file for all');
my @copied = map { LockstepCluster::_slurp("$LockstepCluster::tests/../$_") =~ m{scp -p /etc/lockstep/(\S+) 10\.0\.0\.2:} } qw(README.md docs/tutorial.md);
is("@copied", 'join-n2 join-n2', 'README and tutorial copy the file that init has made');
is(sprintf('%o', (stat "$s->{dir}/$_")[2] & 07777), '600', "only the owner reads $_") for qw(r/join-n2 r/ca/ca.key r/tls/key.pem n1/lockstep.tls/key.pem);
my $text = LockstepCluster::_slurp("$s->{dir}/r/join-n2");
my ($key) = LockstepCluster::_slurp("$s->{dir}/n1/lockstep.tls/key.pem") =~ /^(\S{30,})$/m;
unlike($text, qr/\Q$key\E/, 'the join file of n2 does not have the key of n1');

($rc, $out) = $s->ctl('join', 'n2', "--join-file=$s->{dir}/r/join-n2", '--server=port=' . $s->port(2));
is($rc, 0, 'join n2') or diag($out);
is($s->sql(2, 'shop', 'CREATE TABLE t (id int PRIMARY KEY); INSERT INTO t VALUES (1) RETURNING id'), 1, 'n2 writes');
ok($s->await(sub { $s->sql(1, 'shop', "SELECT count(*) FROM pg_tables WHERE tablename = 't'") eq '1' }), 'and n1 has it');
is($s->sql($_, 'shop', "SELECT count(*) FILTER (WHERE NOT ssl OR version <> 'TLSv1.3') FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE application_name LIKE 'lockstep%'"), 0, "all sessions of the replicator on n$_ are encrypted") for 1, 2;
is($s->sql(2, 'shop', "SHOW lockstep.tls_directory"), "$s->{dir}/n2/lockstep.tls", 'n2 has a directory of its own');
isnt(LockstepCluster::_slurp("$s->{dir}/n2/lockstep.tls/cert.pem"), LockstepCluster::_slurp("$s->{dir}/n1/lockstep.tls/cert.pem"), 'and a certificate of its own');
($rc, $out) = $s->ctl("--config=$conf", 'verify');
is($rc, 0, 'all nodes are equal') or diag($out);
($rc, $out) = $s->ctl("--config=$conf", 'doctor');
is($rc, 0, 'doctor finds no problem') or diag($out);

like(($s->ctl("--config=$conf", 'status'))[1], qr/^TLS: .*certificate expires in 18\d\d days/m, 'status shows the certificate');
$s->run_or_die('chmod', '644', "$s->{dir}/r/tls/key.pem");
($rc, $out) = $s->ctl("--config=$conf", 'doctor');
is($rc, 1, 'doctor finds what is wrong with a certificate');
like($out, qr/key\.pem is accessible by everybody/, 'by name');
$s->run_or_die('chmod', '600', "$s->{dir}/r/tls/key.pem");

# ---------- another address: the certificate is not for it

my $written = LockstepCluster::_slurp($conf);
$s->run_or_die('sed', '-i', '/^node.n2 /s/host=127.0.0.1/host=localhost/', $conf);
($rc, $out) = $s->ctl(@init, '--dry-run');
is($rc, 1, 'the old address') or diag($out);
like($out, qr/node "n2" is at localhost:\d+, says .* and not at 127\.0\.0\.1:/, 'is refused by name');
($rc, $out) = $s->ctl((map { s/^n2=127\.0\.0\.1/n2=localhost/r } @init), '--dry-run');
is($rc, 0, 'the new one') or diag($out);
like($out, qr{^change +\S+/ca/node-n2/cert\.pem$}m, 'gets a certificate');
unlike($out, qr{ca/(?:node-n1|replicator)/cert\.pem}, 'others keep theirs');
$s->run_or_die('sed', '-i', '/^node.n2 /s/host=localhost/host=127.0.0.1/', $conf);
is(LockstepCluster::_slurp($conf), $written, 'back again');
# The authority has certificates that are for another host.
$s->run_or_die("$LockstepCluster::bindir/lockstepctl", "--directory=$s->{dir}/r/ca", 'certs', 'node', $_, '10.9.9.9') for qw(n1 n2);
($rc, $out) = $s->ctl(@init);
is($rc, 0, 'init with certificates that are for another host') or diag($out);
like($out, qr{Node n2 has a new certificate: copy the files of \S+/ca/node-n2 to its lockstep\.tls_directory}, 'says who needs the new ones');
my $issued = LockstepCluster::_slurp("$s->{dir}/r/ca/node-n1/cert.pem");
like($s->run_or_die('openssl', 'x509', '-noout', '-text', '-in', "$s->{dir}/r/ca/node-n1/cert.pem"), qr/IP Address:127\.0\.0\.1/, 'n1 has one for its address');
is(LockstepCluster::_slurp("$s->{dir}/n1/lockstep.tls/cert.pem"), $issued, 'and its server has it');
ok($s->await(sub { ($s->ctl("--config=$conf", 'doctor'))[0] == 0 }), 'and it works');
($rc, $out) = $s->ctl(@init);
like($out, qr/Nothing to do/, 'a further run has nothing to do');

# ---------- what would be in the clear

my $old = LockstepCluster::_slurp($conf);
sub check
{
	my ($text) = @_;
	open(my $f, '>', "$s->{dir}/try.conf") or die;
	print $f $text;
	close $f;
	chmod 0644, "$s->{dir}/try.conf";
	return $s->run("$LockstepCluster::bindir/lockstep-replicator", '--config', "$s->{dir}/try.conf", '--check');
}
my $nodes = "secret_file = '$s->{dir}/r/secret'\nnode.n1 = 'host=127.0.0.1 port=1'\n";
for my $case ([ '', qr/without TLS: tls_directory is not set, and require_tls is all.*HINT:.*require_tls = remote/s, 'a configuration of before' ],
	[ "require_tls = remote\nlisten_addresses = '*'\n", qr/from other machines without TLS/, 'all addresses' ],
	[ "require_tls = remote\nnode.n2 = 'host=10.0.0.2'\n", qr/node "n2" would not be encrypted and verified.*HINT:.*verify-full/s, 'a node on another machine' ],
	[ "require_tls = remote\nnode.n2 = 'host=127.0.0.1,10.0.0.2 sslmode=require'\n", qr/node "n2"/, 'one of its addresses' ],
	[ "require_tls = remote\nnode.n2 = 'postgresql://10.0.0.2/?sslmode=verify-ca'\n", qr/node "n2"/, 'a name that is not verified' ],
	[ "tls_directory = '$s->{dir}/r/tls'\nnode.n2 = 'host=10.0.0.2 sslmode=prefer'\n", qr/node "n2"/, 'a line that says less' ],
	[ "tls_directory = '$s->{dir}/n1/lockstep.tls'\n", qr/not for URI:lockstep:replicator/, 'the certificate of a node' ])
{
	my ($lines, $pattern, $name) = @$case;
	($rc, $out) = check($nodes . $lines);
	is($rc, 1, "refused: $name");
	like($out, $pattern, 'by name');
}
for my $lines ("require_tls = remote\n", "listen_addresses = ''\nunix_socket = '/tmp/none'\nrequire_tls = remote\n", "tls_directory = '$s->{dir}/r/tls'\nnode.n2 = 'host=10.0.0.2'\nlisten_addresses = '*'\n",
	"tls_directory = '$s->{dir}/r/tls'\nnode.n2 = 'host=/tmp'\n", "require_tls = remote\nnode.n2 = 'host=10.0.0.2 sslmode=verify-full'\n")
{
	($rc, $out) = check($nodes . $lines);
	is($rc, 0, 'taken: ' . $lines =~ s/\n/ /gr) or diag($out);
}
$s->down;
done_testing;
