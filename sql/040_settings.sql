-- Settings: ranges, who may change them, unknown names; lockstep.status().
SHOW lockstep.node_name;
SHOW lockstep.commit_wait;
SET lockstep.commit_wait = sometimes;
SET lockstep.commit_wait = ordered;
SHOW lockstep.commit_wait;
RESET lockstep.commit_wait;
SET lockstep.max_row_keys = 0;
SET lockstep.node_name = 'x';
SET lockstep.nonsense = 1;
CREATE ROLE regress_lockstep_user;
SET ROLE regress_lockstep_user;
SET lockstep.commit_wait = applied;
SET lockstep.replicate = off;
SET lockstep.unreplicated = allow;
\set VERBOSITY sqlstate
SHOW lockstep.secret_file;
\set VERBOSITY default
SELECT lockstep.apply_commit(1);
SELECT lockstep.turn_open(1);
SELECT lockstep.yield(1, 'x', 0, 0);
RESET ROLE;
DROP ROLE regress_lockstep_user;
RESET lockstep.commit_wait;
SELECT node, mode, applied > 0 AS applied, connected FROM lockstep.status();
SET lockstep.replicate = off;
SELECT node, mode FROM lockstep.status();
CREATE TABLE local_only (id int);
DROP TABLE local_only;
RESET lockstep.replicate;
SELECT lockstep.apply_commit(1);
SELECT name, short_desc FROM pg_settings WHERE name LIKE 'lockstep.%' ORDER BY name COLLATE "C";
