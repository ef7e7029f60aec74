# Values of every type are the same on all nodes, bit by bit as far as their text
# tells, whatever the settings of the session that writes them: in tables with a
# key, in a key, and in tables without one, which have duplicates and NULLs.
use strict;
use warnings;
use Encode ();
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use Test::More;

my $c = LockstepCluster->new(nodes => 2, conf => "max_locks_per_transaction = 512\n");

my @types = (
	int2 => [ '-32768', '0', '32767' ],
	int8 => [ '-9223372036854775808', '9223372036854775807' ],
	numeric => [ 'NaN', 'Infinity', '-Infinity', '1.0', '1.00', '-0.000', '1e100', '123456789012345678901234567890.1234567890', '1e-100' ],
	'numeric(10,3)' => [ '1.0004', 'NaN', '-1234567.891' ],
	float4 => [ 'NaN', 'Infinity', '-Infinity', '-0', '0', '1.1', '3.4e38', '1e-45', '16777217' ],
	float8 => [ 'NaN', 'Infinity', '-Infinity', '-0', '0', '0.1', '5e-324', '1.7976931348623157e308', '0.30000000000000004' ],
	money => [ '1234.56', '-92233720368547758.08', '0.01' ],
	bool => [ 't', 'f' ],
	'"char"' => [ 'a', '', 'N' ],
	name => [ 'x', 'a "name"', 'äöü' ],
	text => [ '', ' ', 'äöü€', "tab\tnewline\nreturn\rbackslash \\ end", '\\N', '\\.', 'NULL', "it''s \"quoted\"", 'x' x 3000 ],
	'varchar(10)' => [ '', 'ä', 'trailing  ' ],
	'char(5)' => [ '', 'a  ', 'abcde' ],
	bytea => [ '\\x', '\\x00ff', '\\x5c4e', '\\x' . ('00ff' x 2000) ],
	'bit(5)' => [ '10101', '00000' ],
	varbit => [ '', '1', '1010101010101' ],
	date => [ 'infinity', '-infinity', '4713-01-01 BC', '0001-12-31 BC', '2000-02-29', '5874897-12-31', '2003-02-01' ],
	time => [ '00:00', '24:00:00', '12:34:56.789012' ],
	'time(2)' => ['12:34:56.789'],
	timetz => [ '12:00:00.123456+05:45', '24:00-15:59', '00:00:00+00' ],
	timestamp => [ 'infinity', '-infinity', '4713-01-01 00:00:00 BC', '294276-12-31 23:59:59.999999', '2021-10-31 02:30', '2003-02-01 04:05:06.7' ],
	timestamptz => [ 'infinity', '-infinity', '4713-01-01 00:00:00+00 BC', '294276-12-31 23:59:59.999999+00', '2021-10-31 00:30+00', '2021-10-31 01:30+00',
		'1883-11-18 12:03:57+00', '2003-02-01 04:05:06.789+14' ],
	interval => [ '1 mon -1 days', '-1 mon +1 day -00:00:01.5', '178000000 years', '00:00', '1 year 2 mons 3 days 04:05:06.789', '-1 days +02:03', '1000 hours' ],
	json => [ '{"a": 1, "a":  2}', '[1, null]', '"ü"', 'null' ],
	jsonb => [ '{"b": 1.0, "a": [{}, 1.00]}', '"ü"', 'null', '[]', '1e400' ],
	jsonpath => [ '$."a"[*] ? (@ > 1)', 'strict $' ],
	xml => [ '<a b="c">x &amp; y</a>', '<ä/>' ],
	uuid => [ '00000000-0000-0000-0000-000000000000', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11' ],
	tsvector => [ "''a'':1A,2 ''b c'':3", '' ],
	tsquery => [ "''a'' & !''b'':*A | ''c'' <2> ''d''", '' ],
	point => [ '(0,-0)', '(1e300,NaN)', '(0.1,-Infinity)' ],
	lseg => ['[(0,0),(0.1,1)]'],
	path => [ '((0,0),(1,1))', '[(0,0),(1,0.30000000000000004)]' ],
	box => ['(1,1),(0,0)'],
	polygon => ['((0,0),(0.1,1),(1,0))'],
	circle => ['<(0.1,0),2>'],
	line => ['{1,0.1,3}'],
	inet => [ '192.168.0.1/24', '::1', '::ffff:1.2.3.4/128' ],
	cidr => [ '192.168.0.0/24', '2001:db8::/32' ],
	macaddr => ['08:00:2b:01:02:03'],
	macaddr8 => ['08:00:2b:01:02:03:04:05'],
	pg_lsn => [ '0/0', 'FFFFFFFF/FFFFFFFF' ],
	pg_snapshot => ['10:20:10,14,15'],
	xid => ['4294967295'],
	xid8 => ['18446744073709551615'],
	cid => ['7'],
	tid => ['(1,2)'],
	oid => [ '0', '4294967295' ],
	oidvector => [ '', '1 2 3' ],
	int2vector => ['1 -2'],
	'int4[]' => [ '{}', '{1,NULL,3}', '{{1,2},{3,4}}', '[2:3]={5,6}', '[-1:0][5:6]={{1,2},{3,4}}', '{1,2,3}' ],
	'text[]' => [ '{"a,b","c\\"d",NULL,"NULL",""," x ","\\\\"}', '{äö}', '{}' ],
	'bytea[]' => ['{"\\\\x00ff","\\\\x"}'],
	'float8[]' => ['{NaN,-0,0.1,Infinity}'],
	'money[]' => ['{1.5,-2}'],
	'date[]' => ['{infinity,2003-02-01,"0044-03-15 BC"}'],
	'timestamptz[]' => ['{infinity,"2020-01-01 00:00+00"}'],
	'interval[]' => ['{"1 mon -1 days","-00:00:01"}'],
	'json[]' => ['{"{\\"a\\": 1}"}'],
	int4range => [ 'empty', '[1,5)', '(,3)', '[1,)', '(,)' ],
	numrange => [ '(1.0,2.00]', '[NaN,NaN]' ],
	tstzrange => [ '[2020-01-01 00:00+00,infinity]', '(,2003-02-01 00:00+00)' ],
	daterange => ['[2003-02-01,2003-02-03)'],
	int4multirange => [ '{}', '{[1,3),[5,)}' ],
	tstzmultirange => ['{[2003-02-01 00:00+00,2003-02-02 00:00+00)}'],
	'int4range[]' => ['{"[1,3)",empty}'],
	'odd."Mood"' => [ 'sad', 'ok', 'ü x' ],
	'odd."Mood"[]' => ['{sad,"ü x",NULL}'],
	'odd.positive' => [ '1', '99.50' ],
	'odd.dates' => ['{2003-02-01,infinity}'],
	'odd."Pair"' => [ '(1,"x,y","{1,2}",sad,"2003-02-01",0.1,"\\\\x00")', '(,,,,,,)', '(,"","{}",,,NaN,)' ],
	'odd."Pair"[]' => ['{"(1,\\"a\\",{},ok,infinity,-0,)",NULL}'],
	'odd.nested' => ['("(1,""x"",{},sad,2003-02-01,1,)","[2003-02-01,2003-02-03)")'],
	'odd.floats' => [ '[0.1,0.30000000000000004)', 'empty' ],
	'odd.floatss' => ['{[0.1,1),[2,)}'],
	regclass => [ 'pg_class', 'odd."Odd Table"', '0', '4000000000' ],
	regproc => [ 'pg_catalog.now', '0' ],
	regprocedure => [ 'pg_catalog.abs(integer)', 'odd.f(odd."Mood")' ],
	regoper => ['pg_catalog.||/'],
	regoperator => ['pg_catalog.+(integer,integer)'],
	regtype => [ 'integer', 'odd."Mood"', 'odd."Mood"[]', 'timestamp with time zone' ],
	regconfig => ['english'],
	regdictionary => ['simple'],
	regnamespace => [ 'odd', 'pg_catalog' ],
	regrole => ['"Odd Role"'],
	regcollation => ['"C"'],
);

# In a primary key: types whose equality isn't that of images, or that hash in a
# way of their own.
my %keyed = map { $_ => 1 } ('numeric', 'float8', 'char(5)', 'text', 'interval', 'timetz', 'timestamptz', 'int4range', 'tstzrange', 'int4[]',
	'float8[]', 'jsonb', 'inet', 'varbit', 'bytea', 'money', 'oidvector', 'regclass', 'uuid', 'odd."Mood"', 'odd."Mood"[]', 'odd.positive', 'odd."Pair"');

# A column of an oid-alias type makes its object be needed: nothing of it is dropped.
my @settings = (
	'',
	"SET DateStyle = 'SQL, DMY'; SET TimeZone = 'America/St_Johns'; SET IntervalStyle = sql_standard; SET extra_float_digits = -15;
	 SET bytea_output = escape; SET xmlbinary = hex; SET xmloption = document; SET search_path = odd, public;",
	"SET DateStyle = 'German'; SET TimeZone = 'Asia/Kathmandu'; SET IntervalStyle = iso_8601; SET extra_float_digits = 3;
	 SET quote_all_identifiers = on; SET client_encoding = latin1; SET row_security = off; SET enable_seqscan = off;",
	"SET DateStyle = 'Postgres, MDY'; SET TimeZone = '<+03:30>-03:30'; SET IntervalStyle = postgres_verbose; SET extra_float_digits = 0;
	 SET default_toast_compression = 'pglz'; SET search_path = pg_temp, pg_catalog;",
);
my ($locale) = grep { /^(de|en|fr|ja)_.*utf-?8/i } split /\n/, `locale -a`;
push @settings, "SET lc_monetary = '$locale'; SET lc_numeric = '$locale'; SET lc_time = '$locale';" if defined $locale;

$c->sql(1, <<'SQL');
CREATE ROLE "Odd Role";
CREATE SCHEMA odd;
CREATE TABLE odd."Odd Table" (a int);
CREATE TYPE odd."Mood" AS ENUM ('sad', 'ok', 'ü x');
CREATE FUNCTION odd.f(odd."Mood") RETURNS int LANGUAGE sql RETURN 1;
CREATE DOMAIN odd.positive AS numeric CHECK (VALUE > 0);
CREATE DOMAIN odd.dates AS date[];
CREATE TYPE odd."Pair" AS (i int, "t T" text, a int[], m odd."Mood", d date, f float8, b bytea);
CREATE TYPE odd.nested AS (p odd."Pair", r daterange);
CREATE TYPE odd.floats AS RANGE (subtype = float8, multirange_type_name = odd.floatss);
SQL

# A table has some types, each twice; a row has one value of each.
my @tables;
for (my $i = 0; $i < @types; $i += 2)
{
	my ($type, $values) = @types[ $i, $i + 1 ];
	push @tables, { types => [], rows => 1 } if !@tables || @{ $tables[-1]{types} } == 16;
	push @{ $tables[-1]{types} }, { type => $type, values => $values };
	$tables[-1]{rows} = @$values if @$values > $tables[-1]{rows};
}
my @keys = map { my $t = $_; grep { $keyed{ $_->{type} } } @{ $t->{types} } } @tables;

my $create = '';
for my $n (0 .. $#tables)
{
	my @types = map { $_->{type} } @{ $tables[$n]{types} };
	my $v = join ', ', map { "v$_ $types[$_]" } 0 .. $#types;
	my $w = join ', ', map { "w$_ $types[$_]" } 0 .. $#types;
	$create .= "CREATE TABLE public.k$n (id int PRIMARY KEY, $v, gone int, $w); ALTER TABLE public.k$n DROP COLUMN gone;\n";
	$create .= "CREATE TABLE public.n$n ($v, gone text, extra int, $w); ALTER TABLE public.n$n DROP COLUMN gone;\n";
}
$create .= "CREATE TABLE public.p$_ (id int, v $keys[$_]{type}, PRIMARY KEY (v, id));\n" for 0 .. $#keys;
$c->sql(1, "BEGIN;\n${create}COMMIT;");
$c->same('tables of all types');

sub value
{
	my ($type, $i) = @_;
	my $values = $type->{values};
	return "'" . $values->[ $i % @$values ] . "'::$type->{type}";
}

# All of them in make check-long; those that differ most, always.
my $base = 0;
for my $s ($ENV{LOCKSTEP_LONG} ? (0 .. $#settings) : (1, 2))
{
	my $node = $s % 2 + 1;
	my $script = "\\encoding utf8\n$settings[$s]\n";
	for my $n (0 .. $#tables)
	{
		my @types = @{ $tables[$n]{types} };
		my $names = join ', ', map { "v$_" } 0 .. $#types;
		my ($id, $swap) = ($base, join ', ', map { "v$_ = w$_, w$_ = v$_" } 0 .. $#types);
		for my $i (0 .. $tables[$n]{rows} - 1)
		{
			my $row = join ', ', map { value($_, $i) } @types;
			$id++;
			$script .= "INSERT INTO public.k$n (id, $names) VALUES ($id, $row);\n";
			$script .= "INSERT INTO public.n$n ($names, extra) VALUES ($row, 1), ($row, 2), ($row, 2);\n";
			$script .= "UPDATE public.k$n SET " . join(', ', map { "w$_ = " . value($types[$_], $i + 1) } grep { $_ % 3 != $i % 3 } 0 .. $#types) . " WHERE id = $id;\n";
		}
		$script .= "INSERT INTO public.k$n (id) VALUES ($id + 1); INSERT INTO public.n$n DEFAULT VALUES; INSERT INTO public.n$n DEFAULT VALUES;\n";
		# of equal rows one
		$script .= "UPDATE public.n$n t SET extra = 4 WHERE ctid = ANY (ARRAY(SELECT max(ctid) FROM public.n$n x GROUP BY x::text));\n";
		$script .= "UPDATE public.n$n SET $swap WHERE extra = 4;\nUPDATE public.k$n SET $swap WHERE id % 2 = 0;\n";
		$script .= "DELETE FROM public.n$n t WHERE ctid = ANY (ARRAY(SELECT min(ctid) FROM public.n$n x WHERE extra = 2 GROUP BY x::text));\n";
	}
	for my $n (0 .. $#keys)
	{
		my $key = $keys[$n];
		$script .= "BEGIN;\nINSERT INTO public.p$n VALUES " . join(', ', map { '(' . ($base + $_) . ', ' . value($key, $_) . ')' } 1 .. @{ $key->{values} } + 2) . ";\n";
		$script .= "UPDATE public.p$n SET v = (SELECT v FROM public.p$n b WHERE b.id = p$n.id + 1) WHERE id > $base AND EXISTS (SELECT FROM public.p$n b WHERE b.id = p$n.id + 1);\n";
		$script .= "DELETE FROM public.p$n WHERE id = $base + 1; UPDATE public.p$n SET id = -id WHERE id = $base + 2;\nCOMMIT;\n";
	}
	$base += 20;
	if ($script =~ /client_encoding = latin1/)
	{
		$script =~ s/\\encoding utf8/\\encoding latin1/;
		$script =~ s/€/ß/g;
		Encode::from_to($script, 'utf8', 'latin1');
	}
	$c->sql($node, $script, timeout => 300);
	$c->same("written on n$node under: " . ($settings[$s] eq '' ? 'default settings' : $settings[$s] =~ s/\s+/ /gr), data_only => 1);
}

# What was written on one node under one setting is updated and deleted on the
# other under another: rows of tables without a key are found by their image.
my $script = "$settings[1]\nBEGIN;\n";
$script .= "UPDATE public.n$_ SET extra = extra + 100 WHERE extra < 4;\nDELETE FROM public.n$_ WHERE extra = 4;\nUPDATE public.k$_ SET w0 = NULL WHERE id % 2 = 0;\n"
	. "DELETE FROM public.k$_ WHERE id % 3 = 0;\n" for 0 .. $#tables;
$script .= "DELETE FROM public.p$_ WHERE id % 2 = 0;\n" for 0 .. $#keys;
$c->sql(1, "${script}COMMIT;", timeout => 300);
$c->same('changed by the other node', data_only => 1);
my $all = join '', map { "UPDATE public.n$_ SET extra = 7; DELETE FROM public.n$_ WHERE v0 IS NULL; DELETE FROM public.n$_;\n" } 0 .. $#tables;
$c->sql(2, "SET lockstep.statement_rows = -1; $settings[2] $all", timeout => 300);
$c->same('and all of it deleted', data_only => 1);
is($c->sql(1, join(' UNION ALL ', map { "SELECT count(*) FROM public.n$_" } 0 .. $#tables)) =~ s/\n/ /gr, join(' ', (0) x @tables), 'nothing is left');

done_testing;
