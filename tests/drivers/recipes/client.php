<?php
// The recipe for PDO of docs/clients.md: see tests/drivers/recipes.pl for what it reads and prints.
require $argv[1] . '/lockstep.php';
$connect = fn() => new PDO('pgsql:host=127.0.0.1,127.0.0.1;port=' . getenv('PORT1') . ',' . getenv('PORT2') . ';dbname=' . getenv('DB') . ';user=' . getenv('DBUSER')
	. ';target_session_attrs=read-write;sslmode=disable;gssencmode=disable');
while (($line = fgets(STDIN)) !== false) {
	$work = function ($db) use ($line) {
		foreach (explode(';;', rtrim($line, "\n")) as $step) {
			if ($step === '@') {
				echo "at\n";
				fgets(STDIN);
			} else
				$db->exec($step);
		}
		return 'its result';
	};
	try {
		echo 'done ' . \Lockstep\run($connect, $work) . "\n";
	} catch (Throwable $error) {
		echo 'failed ', str_replace("\n", ' ', $error->getMessage()), "\n";
	}
}
