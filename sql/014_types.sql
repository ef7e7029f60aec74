-- Values of every built-in type, as they are forwarded: the same text whatever the session has set, from which
-- every node makes the same value; in rows with a key, as a key, and in rows without one.
\pset format unaligned
\pset tuples_only on
CREATE TYPE ty_mood AS ENUM ('sad', 'it''s ok');
CREATE TYPE ty_pair AS (a int, b text);
CREATE DOMAIN ty_small AS int CHECK (VALUE < 100);
CREATE TYPE ty_range AS RANGE (subtype = float8);
CREATE TABLE ty (id int PRIMARY KEY,
	c_bool bool, c_int2 int2, c_int8 int8, c_numeric numeric, c_scale numeric(10, 4), c_float4 float4, c_float8 float8, c_money money,
	c_text text, c_varchar varchar(9), c_bpchar char(5), c_char "char", c_name name, c_bytea bytea, c_bit bit(3), c_varbit varbit,
	c_date date, c_time time, c_timetz timetz, c_timestamp timestamp, c_timestamptz timestamptz, c_interval interval,
	c_uuid uuid, c_inet inet, c_cidr cidr, c_macaddr macaddr, c_macaddr8 macaddr8,
	c_json json, c_jsonb jsonb, c_jsonpath jsonpath, c_xml xml, c_tsvector tsvector, c_tsquery tsquery,
	c_point point, c_line line, c_lseg lseg, c_box box, c_path path, c_polygon polygon, c_circle circle,
	c_int4range int4range, c_tstzrange tstzrange, c_nummultirange nummultirange, c_range ty_range,
	c_enum ty_mood, c_pair ty_pair, c_domain ty_small, c_oid oid, c_regtype regtype, c_lsn pg_lsn, c_snapshot pg_snapshot,
	c_ints int[], c_texts text[], c_bounds int[], c_boxes box[], c_enums ty_mood[], c_pairs ty_pair[], c_domains ty_small[]);

SET DateStyle = 'German, DMY';
SET IntervalStyle = 'sql_standard';
SET TimeZone = '<+05:30>-05:30';
SET bytea_output = 'escape';
SET extra_float_digits = -10;
SET xmloption = 'document';
SET quote_all_identifiers = on;
BEGIN;
INSERT INTO ty VALUES (1,
	true, -32768, 9223372036854775807, '1.500', 1.5, 0.1, 1.0 / 3, '12.34',
	E'tab\t, quote '' and \\ backslash\nline', 'ä€😀', 'ab', 'x', 'name', '\x00ff5c', '101', '10101',
	'2020-02-29', '23:59:59.999999', '23:59:59+05:30', '2020-02-29 01:02:03.000004', '2020-02-29 01:02:03+00', '1 year 2 mons -3 days 04:05:06.7',
	'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', '10.0.0.1/8', '10.0.0.0/8', '08:00:2b:01:02:03', '08:00:2b:01:02:03:04:05',
	'{"b": 1,  "a": 1, "a": 2}', '{"b": 1,  "a": 1, "a": 2}', '$.a[*] ? (@ > 1)', '<a b="c">&amp;</a>', 'a:1A b:2,3', 'a & !b:*',
	'(1,2.5)', '{1,-1,0}', '[(0,0),(1,1)]', '(1,1),(0,0)', '[(0,0),(1,1),(2,0)]', '((0,0),(1,1),(2,0))', '<(0,0),1.5>',
	'[1,5]', '[2020-01-01 00:00+00,)', '{[1.1,2.2),(3,4]}', '(0.1,0.2]',
	'it''s ok', '(1,"x, ""y""")', 99, 4294967295, 'pg_catalog.int4', '16/B374D848', '10:20:10,14,15',
	'{1,NULL,3}', '{"a,b","NULL",NULL,"\"","\\",""}', '[0:1][2:3]={{1,2},{3,4}}', '{(1,1),(0,0);(2,2),(1,1)}', '{sad,"it''s ok"}', '{"(1,a)","(,)"}', '{1,2}');
SELECT a.attname, p.v
FROM lockstep.forwarded, unnest(params) WITH ORDINALITY p (v, n) JOIN pg_attribute a ON a.attrelid = 'ty'::regclass AND a.attnum = p.n ORDER BY p.n;
COMMIT;

-- what text does not tell by itself
BEGIN;
INSERT INTO ty (id, c_numeric, c_float8, c_float4, c_date, c_timestamptz, c_text, c_bytea, c_bpchar, c_ints, c_json, c_point) VALUES
	(2, 'NaN', '-0', 'Infinity', 'infinity', '-infinity', '', '', '', '{}', 'null', '(NaN,-0)'),
	(3, 'Infinity', 'NaN', '1e-45', '0044-03-15 BC', '4713-01-01 00:00+00 BC', NULL, NULL, NULL, NULL, NULL, NULL),
	(4, 1e100, 5e-324, 3.4028235e38, '5874897-12-31', '294276-12-31 23:59:59.999999+00', '\N', '\x5c4e', '\N', '{NULL}', '""', '(1e300,1e-300)');
SELECT line FROM lockstep.forwarded, regexp_split_to_table(params[1], '\n') line;
COMMIT;
RESET ALL;
SELECT id, c_numeric, c_float8, c_float4, c_date, c_timestamptz AT TIME ZONE 'UTC', c_text, c_bytea, c_bpchar, c_ints, c_json, c_point FROM ty ORDER BY id;

-- as a key: each finds the row again, here and on the others
CREATE FUNCTION ty_as_key(typ text, old text, new text) RETURNS TABLE (found_by text, value text) LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE format('CREATE TABLE ty_key (k %s PRIMARY KEY, v int)', typ);
	EXECUTE format('INSERT INTO ty_key VALUES (%L)', old);
	EXECUTE format('UPDATE ty_key SET v = 1 WHERE k = %L::%s', old, typ);
	EXECUTE format('UPDATE ty_key SET k = %L', new);
	EXECUTE 'DELETE FROM ty_key';
	RETURN QUERY SELECT split_part(f.query, ' WHERE ', 2), f.params[2] FROM lockstep.forwarded f WHERE f.query ~ '^UPDATE ONLY public.ty_key SET v' ORDER BY f.n DESC LIMIT 1;
	DROP TABLE ty_key;
END $$;
SELECT typ, f.* FROM (VALUES ('bool', 'f', 't'), ('int2', '1', '2'), ('int8', '1', '2'), ('numeric', '1.0', '1.00'), ('float4', '0.1', '-0'), ('float8', '0.1', 'NaN'),
	('money', '1', '2'), ('text', '', ' '), ('varchar', 'a', 'A'), ('char(3)', 'a', 'b'), ('"char"', 'a', 'b'), ('name', 'a', 'b'), ('bytea', '\x00', '\x'),
	('bit(2)', '01', '10'), ('varbit', '1', '01'), ('date', '2020-01-01', 'infinity'), ('time', '00:00', '24:00'), ('timetz', '00:00+01', '00:00+02'),
	('timestamp', '2020-01-01', 'infinity'), ('timestamptz', '2020-01-01 00:00+00', '-infinity'), ('interval', '1 mon', '30 days'),
	('uuid', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a12'), ('inet', '10.0.0.1', '10.0.0.1/8'), ('cidr', '10.0.0.0/8', '10/16'),
	('macaddr', '08:00:2b:01:02:03', '08:00:2b:01:02:04'), ('jsonb', '{"a": 1.0}', '{"a": 1.00}'), ('tsvector', 'a', 'b'), ('int4range', '[1,2]', 'empty'),
	('nummultirange', '{[1,2]}', '{}'), ('ty_mood', 'sad', 'it''s ok'), ('ty_pair', '(1,a)', '(1,)'), ('ty_small', '1', '2'), ('oid', '1', '2'),
	('pg_lsn', 'A/B0000001', '0/2'), ('int[]', '{1}', '{}'), ('text[]', '{a}', '{NULL}'), ('text COLLATE "C"', 'a', 'b')) t (typ, old, new),
	LATERAL ty_as_key(typ, old, new) f;

-- without a key: duplicates, NULL, and types that have no equality
CREATE TABLE ty_none AS SELECT * FROM ty;
BEGIN;
INSERT INTO ty_none SELECT * FROM ty;
DELETE FROM ty_none WHERE ctid IN (SELECT min(ctid) FROM ty_none GROUP BY id);
UPDATE ty_none SET c_json = '[]', c_xml = '<b/>', c_point = NULL;
SELECT form, left(query, 31), array_length(params, 1), rows FROM lockstep.forwarded ORDER BY n;
COMMIT;
SELECT count(*), count(DISTINCT id) FROM ty_none;

-- what the other nodes could not read is refused
CREATE CAST (bytea AS text) WITHOUT FUNCTION;
INSERT INTO ty (id, c_text) VALUES (9, '\xff'::bytea::text);
\echo :SQLSTATE
INSERT INTO ty (id, c_text) VALUES (9, '\x610062'::bytea::text);
\echo :SQLSTATE
DROP CAST (bytea AS text);
