# Programs in front of the nodes, run as docs/beside.md has them: its recipe, typed as it stands but for addresses.
#
#	my $b = LockstepBalancer->haproxy($c);		# $c was made with LockstepBalancer::options()
#	$b->{writers}, $b->{readers}				# its ports
#	my $p = LockstepBalancer->pgbouncer($c, $b->{writers});
#	$p->{port}, $p->reconnect
#	$b->log
package LockstepBalancer;
use strict;
use warnings;
use LockstepCluster;
use POSIX ();
use Test::More;

my @running;

# The replicator's pages, and the ports of the programs.
sub ports { my ($c) = @_; return map { $c->{base} + $_ } 9, 8, 7, 6, 5, 4 }

sub recipe_text { return LockstepCluster::_slurp("$LockstepCluster::tests/../docs/beside.md") }

# The block of lines that begins with that line.
sub recipe
{
	my ($first) = @_;
	my ($recipe) = recipe_text() =~ /^(    \Q$first\E\n(?:    .*\n|\n)+)/m;
	die("docs/beside.md has no recipe that begins with $first") unless $recipe;
	$recipe =~ s/^    //mg;
	return $recipe;
}

sub _start
{
	my ($self, @command) = @_;
	my $pid = fork // die "fork: $!";
	if ($pid == 0)
	{
		close $self->{cluster}{lock};
		open(STDIN, '<', '/dev/null');
		open(STDOUT, '>>', $self->{log});
		open(STDERR, '>&', \*STDOUT);
		exec(@command) or POSIX::_exit(127);
	}
	$self->{pid} = $pid;
	push @running, [ $$, $pid ];
	return $self;
}

# In front of both ports of HAProxy.
sub pgpool
{
	my ($class, $c, $haproxy) = @_;
	my ($port, $pcp_port) = (ports($c))[4, 5];
	my $self = bless { cluster => $c, log => "$c->{top}/pgpool.log", port => $port }, $class;
	my $recipe = recipe("backend_clustering_mode = 'streaming_replication'");

	$recipe =~ s/^(backend_port0 = ).*/$1$haproxy->{writers}/m;
	$recipe =~ s/^(backend_port1 = ).*/$1$haproxy->{readers}/m;
	$recipe =~ s/^port = .*/port = $port/m;
	my $conf = $c->file('pgpool.conf', $recipe . <<"CONF");
listen_addresses = '127.0.0.1'
unix_socket_directories = '$c->{dir}'
pcp_socket_dir = '$c->{dir}'
pcp_listen_addresses = ''
pcp_port = $pcp_port
pool_passwd = ''
pid_file_name = '$c->{dir}/pgpool.pid'
logdir = '$c->{dir}'
num_init_children = 12
max_pool = 1
log_destination = 'stderr'
CONF
	return $self->_start($c->owned('pgpool', '-n', '-f', $conf, '-F', $c->file('pcp.conf', ''), '-a', $c->file('pool_hba.conf', '')));
}

# The command of docs/beside.md that makes it connect again.
sub reconnect
{
	my ($self) = @_;
	my ($command) = recipe_text() =~ /--poolers='(psql [^']*)'/ or die('docs/beside.md has no --poolers');
	my $psql = ($self->{cluster}->client(1, 'psql'))[0];

	$command =~ s/^psql/$psql -XqAt/;
	$command =~ s/ -c WAIT_CLOSE// if $self->{mode} eq 'session';
	$command =~ s/-p 6543\b/-h 127.0.0.1 -p $self->{port}/;
	return $command;
}

sub log { my ($self) = @_; return LockstepCluster::_slurp($self->{log}) }

sub haproxy
{
	my ($class, $c) = @_;
	my ($http, $writers, $readers) = ports($c);
	my $self = bless { cluster => $c, log => "$c->{top}/haproxy.log", writers => $writers, readers => $readers }, $class;
	my $group = $c->{options}{replicators} // 1;
	my $recipe = recipe('defaults');

	if ($group > 1)				# with their pages at $c->{pages}[I]
	{
		my ($several) = LockstepCluster::_slurp("$LockstepCluster::tests/../docs/beside.md") =~ /With several replicators.*?\n\n(    defaults\n(?:    [^\n]*\n|\n)+)/s;
		$several =~ s/^    //mg;
		$several =~ s/ #.*//mg;
		$several =~ s/server r(\d) \S+/"server r$1 127.0.0.1:$c->{pages}[$1]"/eg;
		$recipe =~ s/port 8432/port 8433/;
		$recipe =~ s/timeout check 3s/timeout check 5s/;
		$recipe = ($several . $recipe) =~ s/\b8433\b/$http/gr;
	}
	$recipe =~ s/ #.*//mg;
	$recipe =~ s/\bnode$_:5432/'127.0.0.1:' . $c->port($_)/eg for $c->all;
	$recipe =~ s/\binter 1s\b/inter 200ms/;
	$recipe =~ s/port 8432/port $http/g;
	$recipe =~ s/bind :5000/bind 127.0.0.1:$writers/;
	$recipe =~ s/bind :5001/bind 127.0.0.1:$readers/;
	my $conf = $c->file('haproxy.cfg', "global\n    stats socket $c->{top}/haproxy.sock\n$recipe");
	is(system("haproxy -c -f $conf > $self->{log} 2>&1"), 0, 'HAProxy takes the recipe') or diag($self->log);
	return $self->_start('haproxy', '-db', '-f', $conf);
}

# In front of HAProxy, if that is its port; else of the nodes.
sub pgbouncer
{
	my ($class, $c, $writers, $mode) = @_;
	my $port = (ports($c))[3];
	my $self = bless { cluster => $c, log => "$c->{top}/pgbouncer.log", port => $port }, $class;
	my $recipe = recipe('[databases]');
	$self->{mode} = $mode //= 'transaction';

	$recipe =~ s/port=5000/port=$writers user=postgres/;
	$recipe =~ s/^listen_port.*/listen_port = $port/m;
	$recipe =~ s/^pool_mode.*/pool_mode = $mode/m;
	my $conf = $c->file('pgbouncer.ini', "${recipe}listen_addr = 127.0.0.1\nunix_socket_dir =\nauth_type = any\nlogfile =\n");
	return $self->_start($c->owned('pgbouncer', $conf));
}

END
{
	my $rc = $?;
	for (grep { $_->[0] == $$ } @running)
	{
		kill 'TERM', $_->[1];
		waitpid($_->[1], 0);
	}
	$? = $rc;
}

1;
