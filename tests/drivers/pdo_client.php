<?php
// PHP's pdo_pgsql (tests/drivers/frameworks.pl).
function check($good, $name) { echo $good ? "ok - $name\n" : "not ok - $name\n"; }
function connect($port) {
	$db = new PDO('pgsql:host=127.0.0.1;port=' . getenv($port) . ';dbname=' . getenv('DB') . ';user=' . getenv('DBUSER'));
	$db->setAttribute(PDO::ATTR_ERRMODE, PDO::ERRMODE_EXCEPTION);
	$db->exec('SET lockstep.causal_reads = on');
	return $db;
}
$one = connect('PORT1');
$two = connect('PORT2');
$one->exec('CREATE TABLE php (id serial PRIMARY KEY, v text UNIQUE, n numeric, b bytea, f bool)');
$add = $one->prepare('INSERT INTO php (v, n, b, f) VALUES (:v, :n, :b, :f)');
$one->beginTransaction();
for ($i = 1; $i <= 30; $i++) {
	$add->bindValue(':v', "v$i \\ '\"");
	$add->bindValue(':n', $i / 4);
	$add->bindValue(':b', "\x00\xff$i", PDO::PARAM_LOB);
	$add->bindValue(':f', $i % 2 == 0, PDO::PARAM_BOOL);
	$add->execute();
}
$id = $one->lastInsertId();
$one->commit();
check($id == 30 && $two->query('SELECT count(*) FROM php WHERE f')->fetchColumn() == 15, 'prepared statements, lastInsertId');
$two->setAttribute(PDO::ATTR_EMULATE_PREPARES, true);
$set = $two->prepare('UPDATE php SET n = ?, f = NULL WHERE id = ?');
for ($i = 1; $i <= 10; $i++)
	$set->execute([$i * 1.1, $i]);
$two->pgsqlCopyFromArray('php', ["100\ta\t1\t\\\\x00\tt", "101\tb\t\\N\t\\N\tf"]);
check($one->query('SELECT count(*) FROM php WHERE f IS NULL OR id >= 100')->fetchColumn() == 12, 'emulated ones, COPY');
$two->beginTransaction();
$oid = $two->pgsqlLOBCreate();
$lob = $two->pgsqlLOBOpen($oid, 'w');
fwrite($lob, str_repeat('x', 10000));
$lob = null;
$two->commit();
check($one->query("SELECT length(lo_get($oid))")->fetchColumn() == 10000, 'large objects');
try {
	$two->exec("INSERT INTO php (v) VALUES ('a')");
	check(false, 'errors');
} catch (PDOException $e) {
	check($e->getCode() == '23505', 'errors');
}
