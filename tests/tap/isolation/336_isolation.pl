# The isolation table of docs/isolation.md, cell by cell: each anomaly is tried at
# each level, with the sessions on one node, on two and on three.  Where the table
# says "no" it must not happen in any interleaving tried; where it says "yes", it
# must happen in one, or the table is wrong as well.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use Test::More;
use Time::HiRes qw(time);

my $c = LockstepCluster->new(nodes => 3, fault => 1, conf => "lockstep.queue_after = 0\n");
$c->sql(1, 'CREATE TABLE t (id int PRIMARY KEY, grp int NOT NULL, value int)');
$c->drain;

my @monitors = (undef, map { $c->session($_) } $c->all);
my %pool;
my $grp = 0;

# ---------- transactions

# One transaction in one session: statements that fail end it, those that wait for a
# lock are finished later.
package Tx
{
	sub new
	{
		my ($class, $node, $level, $i) = @_;
		my $s = $pool{"$node/$i"} //= $c->session($node);
		my $self = bless { s => $s, node => $node, dead => '', pending => 0 }, $class;
		$s->do("BEGIN ISOLATION LEVEL $level");
		return $self;
	}

	# Does it wait for a lock?  Polled, as nothing tells us.
	sub waits
	{
		my ($self) = @_;
		return $monitors[$self->{node}]->query("SELECT count(*) FROM pg_locks WHERE NOT granted AND pid = " . $self->{s}->pid) > 0;
	}

	sub settle
	{
		my ($self) = @_;
		return unless $self->{pending};
		my $out = $self->{s}->finish(20);
		$self->{pending} = 0;
		$self->{dead} = $self->{s}->error if $self->{s}->error =~ /^ERROR/m;
		$self->{s}->query('ROLLBACK') if $self->{dead};
		return $out;
	}

	# Runs a statement; undef when it failed, or waits.
	sub run
	{
		my ($self, $sql) = @_;
		$self->settle;
		return if $self->{dead};
		$self->{s}->send($sql);
		$self->{pending} = 1;
		my $end = Time::HiRes::time + 60;
		while ($self->{s}->blocked(0.01))
		{
			return if $self->waits;
			die "no end: $sql" if Time::HiRes::time > $end;
		}
		return $self->settle;
	}

	# True if it is committed.  Then the other nodes have it, too.
	sub commit
	{
		my ($self) = @_;
		$self->run('COMMIT');
		$self->settle;		# it may just have waited for one of the server's own, as to extend a table
		return 0 if $self->{dead};
		$self->{dead} = 'committed';
		main::applied($self->{node});
		return 1;
	}

	sub rollback
	{
		my ($self) = @_;
		$self->settle;
		$self->{s}->query('ROLLBACK') unless $self->{dead};
		$self->{dead} = 'rolled back';
	}
}

sub applied
{
	my ($node) = @_;
	my $seq = $monitors[$node]->do('SELECT lockstep.applied_seq()');
	$_->do("SELECT lockstep.wait_for($seq, '20s')") for @monitors[1 .. 3];
}

sub fresh
{
	$grp++;
	$monitors[1]->do("INSERT INTO t VALUES (${grp}1, $grp, 10), (${grp}2, $grp, 20)");
	applied(1);
}

sub value { my ($t, $n) = @_; return $t->run("SELECT value FROM t WHERE id = $grp$n") // '' }
sub set { my ($t, $n, $v) = @_; return $t->run("UPDATE t SET value = $v WHERE id = $grp$n") }
sub both { my ($t) = @_; return $t->run("SELECT string_agg(value::text, ',' ORDER BY id) FROM t WHERE grp = $grp") // '' }

# ---------- anomalies: each returns true if it happened

my %anomaly = (
	'G0' => sub {
		my ($t1, $t2) = @_;
		set($t1, 1, 11);
		set($t2, 1, 12);
		set($t1, 2, 21);
		$t1->commit;
		set($t2, 2, 22);
		$t2->commit;
		my $now = $monitors[1]->do("SELECT string_agg(value::text, ',' ORDER BY id) FROM t WHERE grp = $grp");
		return $now !~ /^(?:11,21|12,22)$/;
	},
	'G1a' => sub {
		my ($t1, $t2) = @_;
		set($t1, 1, 101);
		my $first = value($t2, 1);
		$t1->rollback;
		return $first eq '101' || value($t2, 1) eq '101';
	},
	'G1b' => sub {
		my ($t1, $t2) = @_;
		set($t1, 1, 101);
		my $first = value($t2, 1);
		set($t1, 1, 11);
		$t1->commit;
		return $first eq '101' || value($t2, 1) eq '101';
	},
	'G1c' => sub {
		my ($t1, $t2) = @_;
		set($t1, 1, 11);
		set($t2, 2, 22);
		my ($a, $b) = (value($t1, 2), value($t2, 1));
		my $both = $t1->commit + $t2->commit;
		return $both == 2 && $a eq '22' && $b eq '11';
	},
	'OTV' => sub {
		my ($t1, $t2, $t3) = @_;
		set($t1, 1, 11);
		set($t1, 2, 19);
		set($t2, 1, 12);
		$t1->commit;
		my $seen = value($t3, 1);
		set($t2, 2, 18);
		my @then = (value($t3, 2));
		$t2->commit;
		push @then, value($t3, 2), value($t3, 1);
		return ($seen eq '11' && $then[0] eq '20') || ($then[1] eq '18' && $then[2] ne '12');
	},
	'PMP' => sub {
		my ($t1, $t2) = @_;
		my $first = $t1->run("SELECT count(*) FROM t WHERE grp = $grp AND value = 30");
		$t2->run("INSERT INTO t VALUES (${grp}3, $grp, 30)");
		$t2->commit;
		return ($t1->run("SELECT count(*) FROM t WHERE grp = $grp AND value % 3 = 0") // 0) > $first;
	},
	'P4' => sub {
		my ($t1, $t2) = @_;
		value($_, 1) for $t1, $t2;
		set($t1, 1, 11);
		my $first = $t1->commit;
		set($t2, 1, 11);
		return $first + $t2->commit == 2;
	},
	'P4 ' => sub {
		my ($t1, $t2) = @_;
		value($_, 1) for $t1, $t2;
		set($t1, 1, 11);
		set($t2, 1, 11);
		return $t1->commit + $t2->commit == 2;
	},
	'G-single' => sub {
		my ($t1, $t2) = @_;
		my $x = value($t1, 1);
		set($t2, 1, 12);
		set($t2, 2, 18);
		my $done = $t2->commit;
		return $done && $x eq '10' && value($t1, 2) eq '18';
	},
	'G2-item' => sub {
		my ($t1, $t2) = @_;
		my @rows = map { value($_, 1) . ',' . value($_, 2) } $t1, $t2;
		set($t1, 1, 11);
		set($t2, 2, 21);
		return $t1->commit + $t2->commit == 2 && "@rows" eq '10,20 10,20';
	},
	'G2-item ' => sub {
		my ($t1, $t2) = @_;
		both($_) for $t1, $t2;
		set($t1, 1, 11);
		my $first = $t1->commit;
		set($t2, 2, 21);
		return $first + $t2->commit == 2;
	},
	'G2' => sub {
		my ($t1, $t2) = @_;
		$_->run("SELECT count(*) FROM t WHERE grp = $grp AND value % 3 = 0") for $t1, $t2;
		$t1->run("INSERT INTO t VALUES (${grp}3, $grp, 30)");
		$t2->run("INSERT INTO t VALUES (${grp}4, $grp, 42)");
		return $t1->commit + $t2->commit == 2;
	},
	# What is not there is read by its key.
	'G2 ' => sub {
		my ($t1, $t2) = @_;
		$t1->run("SELECT * FROM t WHERE id = ${grp}3");
		$t2->run("SELECT * FROM t WHERE id = ${grp}4");
		$t1->run("INSERT INTO t VALUES (${grp}4, $grp, 30)");
		$t2->run("INSERT INTO t VALUES (${grp}3, $grp, 42)");
		return $t1->commit + $t2->commit == 2;
	},
	# Fekete, O'Neil, O'Neil: T2 withdraws and, not seeing T1's deposit, pays a fee;
	# the report shows the deposit and no withdrawal.
	'read-only' => sub {
		my ($t1, $t2, $t3) = @_;
		my $total = both($t2);
		value($t1, 2);
		set($t1, 2, 40);
		my $first = $t1->commit;
		my $report = both($t3);
		my $third = $t3->commit;
		set($t2, 1, -11);
		my $second = $t2->commit;
		return $first && $second && $third && $total eq '10,20' && $report eq '10,40';
	},
	'long fork' => sub {
		my ($t1, $t2, $t3, $t4) = @_;
		my ($x3, $y4) = (value($t3, 1), value($t4, 2));
		set($t1, 1, 11);
		set($t2, 2, 22);
		return 0 unless $t1->commit + $t2->commit == 2;
		my ($y3, $x4) = (value($t3, 2), value($t4, 1));
		return $x3 eq '10' && $y3 eq '22' && $y4 eq '20' && $x4 eq '11';
	},
	'long fork ' => sub {
		my ($t1, $t2, $t3, $t4) = @_;
		set($t1, 1, 11);
		set($t2, 2, 22);
		return 0 unless $t1->commit;
		my $first = both($t3);
		return 0 unless $t2->commit;
		my $second = both($t4);
		return ($first eq '11,20' && $second eq '10,22') || ($first eq '10,22' && $second eq '11,20');
	},
);

# ---------- the table

sub table
{
	my %expected;
	open(my $f, '<', "$FindBin::Bin/../../../docs/isolation.md") or die $!;
	while (my $line = <$f>)
	{
		my ($name, @cells) = map { s/^\s+|\s+$//gr } grep { !/^\s*$/ } split /\|/, $line;
		next unless @cells == 6 && $cells[0] =~ /^(?:yes|no)$/;
		$expected{$name} = \@cells;
	}
	return %expected;
}

my %expected = table();
my @levels = ('READ COMMITTED', 'REPEATABLE READ', 'SERIALIZABLE');
my @placements = ([ 1, 1, 1, 1 ], [ 1, 2, 1, 2 ], [ 1, 2, 3, 1 ], [ 2, 2, 1, 3 ]);
is(scalar(keys %expected), 14, 'the table has a row for each anomaly');

for my $row (sort grep { !/^non-monotonic/ } keys %expected)
{
	my ($short) = grep { $row =~ /^\Q$_\E(?: |$)/ && !/ $/ } sort { length($b) <=> length($a) } keys %anomaly;
	my @scripts = grep { s/ $//r eq $short } keys %anomaly;
	ok(scalar(@scripts), "$row: is tried") or next;
	for my $l (0 .. 2)
	{
		my %happened;
		for my $p (@placements)
		{
			my $where = $p->[0] == $p->[1] && $p->[1] == $p->[2] ? 0 : 1;
			for my $script (sort @scripts)
			{
				fresh();
				my @tx = map { Tx->new($p->[$_], $levels[$l], $_) } 0 .. 3;
				my $did = $anomaly{$script}->(@tx);
				$_->rollback for @tx;
				$happened{$where}{"@$p"} = 1 if $did;
			}
		}
		for my $where (0, 1)
		{
			my $should = $expected{$row}[$l * 2 + $where];
			my $did = join(' and ', sort keys %{ $happened{$where} });
			my $name = "$row, $levels[$l], " . ($where ? 'different nodes' : 'one node') . ": $should";
			$should eq 'no' ? is($did, '', $name) : isnt($did, '', $name);
		}
	}
}

# ---------- a client that goes from node to node

for my $causal ('off', 'on')
{
	my $row = 'non-monotonic reads' . ($causal eq 'on' ? ', lockstep.causal_reads = on' : '');
	for my $l (0 .. 2)
	{
		my @seen;
		for my $other (1, 2)
		{
			fresh();
			$c->set(2, 'lockstep_fault.apply_commit', "'wait'");
			$monitors[1]->do("UPDATE t SET value = 11 WHERE id = ${grp}1");
			my ($first, $second) = map { $c->session($_) } 1, $other;
			$_->do("SET lockstep.causal_reads = $causal; SET default_transaction_isolation = '" . lc($levels[$l]) . "'") for $first, $second;
			my $new = $first->do("SELECT value FROM t WHERE id = ${grp}1");
			$second->send("SELECT value FROM t WHERE id = ${grp}1");
			my $blocked = $second->blocked($causal eq 'on' && $other == 2 ? 0.3 : LockstepCluster::soon(5));
			$c->set(2, 'lockstep_fault.apply_commit', "'none'");
			my $then = $second->finish;
			$seen[$other] = $new eq '11' && $then eq '10' ? 'yes' : 'no';
			is($blocked, $causal eq 'on' && $other == 2 ? 1 : '', "$row, $levels[$l], on n$other: " . ($blocked ? 'waits' : 'does not wait'));
			applied(1);
			$_->close for $first, $second;
		}
		is($seen[1], $expected{$row}[$l * 2], "$row, $levels[$l], one node: $seen[1]");
		is($seen[2], $expected{$row}[$l * 2 + 1], "$row, $levels[$l], different nodes: $seen[2]");
	}
}

$c->same('all nodes are equal');
done_testing;
