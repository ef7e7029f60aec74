# Perl's DBD::Pg (tests/drivers/frameworks.pl).
use strict;
use warnings;
use DBI;
use DBD::Pg qw(:pg_types);

$| = 1;
sub check { my ($good, $name) = @_; print $good ? "ok - $name\n" : "not ok - $name\n" }

sub on
{
	my ($port) = @_;
	my $db = DBI->connect("dbi:Pg:host=127.0.0.1;port=$ENV{$port};dbname=$ENV{DB}", $ENV{DBUSER}, '', { RaiseError => 1, PrintError => 0, AutoCommit => 1 });
	$db->do('SET lockstep.causal_reads = on');
	return $db;
}
my ($one, $two) = (on('PORT1'), on('PORT2'));
$one->do('CREATE TABLE dbd (id serial PRIMARY KEY, v text, a text[], b bytea)');
my $add = $one->prepare('INSERT INTO dbd (v, a, b) VALUES (?, ?, ?)');
$add->bind_param(3, undef, { pg_type => PG_BYTEA });
$add->execute("v$_", [ "x$_", undef, 'y"\\' ], "\0\xff") for 1 .. 30;
check($two->selectrow_array("SELECT count(*) FROM dbd WHERE a[2] IS NULL AND b = '\\x00ff'") == 30, 'prepared statements, arrays, bytea');
$two->do('COPY dbd (v) FROM STDIN');
$two->pg_putcopydata("c$_\n") for 1 .. 500;
$two->pg_putcopyend;
check($one->selectrow_array('SELECT count(*) FROM dbd') == 530, 'COPY');
$two->begin_work;
$two->pg_savepoint('s');
eval { $two->do('INSERT INTO dbd (id) VALUES (1)') };
check($two->state eq '23505', 'errors');
$two->pg_rollback_to('s');
my $all = $two->prepare("DELETE FROM dbd WHERE v LIKE 'c%' RETURNING id");
my $n = $all->execute;
$two->commit;
check($n == 500 && $one->selectrow_array('SELECT count(*) FROM dbd') == 30, 'savepoints, RETURNING');
$one->do('LISTEN news');
$two->do("NOTIFY news, 'hello'");
$one->do('SELECT 1');
my $heard;
until ($heard) { $heard = $one->pg_notifies or select(undef, undef, undef, 0.05) }
check($heard->[2] eq 'hello', 'NOTIFY');
my $name = $one->last_insert_id(undef, undef, 'dbd', undef);
check($name == 30, 'last_insert_id');
