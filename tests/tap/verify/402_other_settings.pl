# Nodes whose postgresql.conf gives other meanings to texts and names are equal all the same: when they
# come first, to what is applied, to lockstepctl verify.
use strict;
use warnings;
use File::Temp;
use FindBin;
use lib "$FindBin::Bin/..";
use LockstepCluster;
use Test::More;

my $dir = File::Temp->newdir('lockstep-settings-XXXXXX', TMPDIR => 1);
chmod 0755, $dir;
open(my $conf, '>', "$dir/n2.conf") or die $!;
print $conf <<'CONF';
quote_all_identifiers = on
standard_conforming_strings = off
escape_string_warning = off
array_nulls = off
transform_null_equals = on
DateStyle = 'SQL, DMY'
IntervalStyle = sql_standard
TimeZone = 'Asia/Kolkata'
bytea_output = escape
extra_float_digits = -5
xmloption = document
default_transaction_isolation = 'repeatable read'
search_path = 'nowhere'
CONF
close $conf;

my $c = LockstepCluster->new(nodes => 2, conf => "include_if_exists = '$dir/n\@NODE\@.conf'\n");
$c->sql($_, <<"SQL") for $c->all;
CREATE TABLE public.t$_ (id int PRIMARY KEY, "Mixed" timestamptz DEFAULT '2026-03-04 05:06:07+00', b bytea DEFAULT E'\\\\x00ff41', f float8 DEFAULT 0.1 + 0.2,
	i interval DEFAULT '1 year 2 days', m money DEFAULT 1.5, a int[] DEFAULT '{1}', s text DEFAULT 'it''s', CHECK (s = NULL OR s <> 'x'));
CREATE TABLE public.p$_ (at timestamptz) PARTITION BY RANGE (at);
CREATE TABLE public.p${_}_1 PARTITION OF public.p$_ FOR VALUES FROM ('2026-03-04 05:06:07+00') TO ('2026-04-05 06:07:08+00');
CREATE VIEW public.v$_ AS SELECT "Mixed" AS "select", f FROM public.t$_ WHERE i > '1 day';
CREATE INDEX ON public.t$_ ((f * 1.1)) WHERE "Mixed" > '2020-01-02 03:04:05+00';
INSERT INTO public.t$_ VALUES (1);
INSERT INTO public.t$_ VALUES (2, '04/03/2026 05:06:07', 'ab', 1e-300, '3', 2, '{1}', 'back\\\\slash');
SQL
$c->sql(2, "UPDATE public.t1 SET f = 1/3.0::float8, a = ARRAY[NULL::int, 3] WHERE id = 1; UPDATE public.t2 SET s = E'\\\\\\\\' WHERE id = 2");
$c->sql(1, "UPDATE public.t2 SET f = 1/7.0::float8, i = '4 mons -1 day' WHERE id = 1");
$c->drain;

# what a node that comes is compared by
my $all = "SELECT string_agg(object || ' ' || value, E'\\n' ORDER BY object COLLATE \"C\") FROM lockstep.fingerprint()";
is($c->sql($_, $all), $c->sql(1, $all), "n$_ is the same to a node that comes") for 2;

my ($out, $err, $rc) = $c->ctl('verify');
is($rc, 0, 'lockstepctl verify finds no difference') or diag($out, $err);
like($out, qr/^equal$/m, 'and says so');

done_testing;
