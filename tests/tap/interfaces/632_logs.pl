# The replicator's log for programs: JSON lines with stable names of events, syslog(3), priorities for systemd's journal; and
# who commanded, and which sessions came.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use IO::Socket::UNIX;
use JSON::PP;
use LockstepCluster;
use Socket qw(SOCK_DGRAM);
use IO::Handle;
use POSIX ();
use Test::More;

my $c = LockstepCluster->new(nodes => 2);
$c->sql(1, 'CREATE TABLE t (id int PRIMARY KEY)');

# Starts the replicator with these settings instead of those of the same names.
sub restart_with
{
	my (%settings) = @_;
	my $text = LockstepCluster::_slurp($c->replicator_conf);
	for my $name (keys %settings)
	{
		$text =~ s/^\Q$name\E *=.*\n//mg;
		$text .= "$name = '$settings{$name}'\n";
	}
	open(my $f, '>', $c->replicator_conf) or die($c->replicator_conf . ": $!");
	print $f $text;
	close $f;
	$c->cluster('restart-replicator') or die($c->{cluster_output});
	$c->wait_state($_, 'online') for $c->all;
}

# ---------- jsonlog

my $path = "$c->{dir}/log.json";
restart_with(log_destination => 'jsonlog', log_file => $path, log_sessions => 'info');
$c->sql(1, "SET application_name = E'a \"name\"\\n'; INSERT INTO t VALUES (1)");
$c->ctl('drop', 'n2');
$c->ctl('attach', 'n2');
$c->wait_state(2, 'online');
my $text = '';
ok($c->wait_until(sub { $text = LockstepCluster::_slurp($path); 3 == (() = $text =~ /"event":"node_online"/g) && $text =~ /\n\z/ }), 'the log says what has happened');
my @wrong = grep { !eval { JSON::PP->new->utf8->decode($_) } } split /\n/, $text;
is("@wrong", '', 'each line is an object');
my @all = map { JSON::PP->new->utf8->decode($_) } split /\n/, $text;
is(scalar(grep { !defined $_->{timestamp} || $_->{pid} !~ /^\d+$/ || $_->{error_severity} !~ /^(DEBUG|INFO|LOG|WARNING|ERROR)$/ || !defined $_->{message} } @all), 0,
	'with a time, a process, a severity and a message');

sub of_event { my ($name) = @_; return grep { ($_->{event} // '') eq $name } @all }

is(scalar(of_event('start')), 1, 'the start has a name');
is(join(' ', sort map { $_->{context} } of_event('node_online')), 'n1 n2 n2', 'and so has each node that is online');
my ($dropped) = of_event('node_dropped');
is("$dropped->{context}: $dropped->{message}", 'n2: node was dropped: dropped by command', 'or dropped');
my @commands = map { $_->{message} } of_event('command');
is("@commands", "command of user id $<: drop n2 command of user id $<: attach n2", 'commands are logged with their user');
my ($session) = grep { $_->{message} =~ /application "a / } of_event('session');
like($session->{message} // '', qr/^session begins: database "\w+", role "postgres", application "a "name"/, 'sessions with who they are');
like($session->{context} // '', qr{^session n1/\d+$}, 'and where');

# ---------- systemd's journal

my $out = "$c->{dir}/replicator.out";
my ($device, $inode) = (stat $out)[ 0, 1 ];
{
	local $ENV{JOURNAL_STREAM} = "$device:$inode";
	restart_with(log_destination => 'stderr', log_file => '');
}
$text = LockstepCluster::_slurp($out);
like($text, qr/^<5>[-0-9]+ [:.0-9]+ UTC \[\d+\] LOG:  ready: 2 nodes$/m, 'lines for systemd\'s journal begin with a priority');
restart_with(log_destination => 'stderr', log_file => '');
$text = LockstepCluster::_slurp($out);
like($text, qr/^[-0-9]+ [:.0-9]+ UTC \[\d+\] LOG:  ready: 2 nodes$/m, 'others do not');

# ---------- syslog

SKIP:
{
	skip 'this machine has a syslog, or we may not take its place', 2 if -e '/dev/log' || $< != 0;
	my $socket = IO::Socket::UNIX->new(Type => SOCK_DGRAM, Local => '/dev/log') or die("/dev/log: $!");
	chmod 0666, '/dev/log';

	# it is read all the time: what fills its queue, others of this machine too, would hold up the replicator
	my $received = $c->file('received', '');
	my $reader = fork // die $!;
	if (!$reader)
	{
		open(my $to, '>>', $received) or POSIX::_exit(1);
		$to->autoflush(1);
		while (defined $socket->recv(my $one, 8192)) { print $to "$one\n" }
		POSIX::_exit(0);
	}
	restart_with(log_destination => 'syslog');
	$c->ctl('drop', 'n2');
	ok($c->wait_until(sub { $text = LockstepCluster::_slurp($received); return $text =~ /node was dropped/ }, 20), 'syslog has it');
	kill 'KILL', $reader;
	waitpid($reader, 0);
	like($text, qr/^<29>.* lockstep-replicator\[\d+\]: \[n2\] node was dropped: dropped by command$/m, 'with priority and name');
	unlink '/dev/log';
	$c->ctl('attach', 'n2');
	$c->wait_state(2, 'online');
}
$c->same('the nodes are equal');
done_testing();
