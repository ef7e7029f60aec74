// node-postgres: parameters, named prepared statements, pool, transactions, errors and
// retries, several statements in one, notifications. Writes through one node, reads through the other.
'use strict';
const { Client, Pool } = require('pg');

let failed = 0;

function check(name, condition, why) {
  if (!condition) failed++;
  console.log(`${condition ? 'ok' : 'not ok'} - ${name}${condition ? '' : ': ' + JSON.stringify(why)}`);
}

function config(node) {
  return {
    host: '127.0.0.1', port: +process.env['PORT' + node], database: process.env.DB, user: process.env.DBUSER,
    options: '-c lockstep.commit_wait=applied',
  };
}

const value = async (c, sql, params) => Object.values((await c.query(sql, params)).rows[0])[0];

async function parameters(one, two) {
  await one.query(`CREATE TABLE nd (id int PRIMARY KEY, l int8, f float8, n numeric, t text, b bytea, bo bool, ts timestamptz,
    j jsonb, a int[], ta text[], u uuid)`);
  const when = new Date(Date.UTC(2021, 9, 31, 1, 30, 0, 123));
  const values = ['9223372036854775807', -0.1, '1.500', "ä \\ ' \n", Buffer.from([0, 255, 92]), true, when, { a: [1, null, 'ü'] },
    [1, null, 3], ['a,b', null, 'NULL', ''], '00000000-0000-0000-0000-000000000007'];
  const marks = values.map((_, i) => '$' + (i + 2)).join(', ');
  for (let id = 0; id < 5; id++) {
    await one.query({ name: id > 2 ? 'insert' : undefined, text: `INSERT INTO nd VALUES ($1, ${marks})`, values: [id, ...values] });
  }
  for (const id of [0, 4]) {
    const r = (await two.query('SELECT * FROM nd WHERE id = $1', [id])).rows[0];
    check(`parameters, row ${id}`, r.l === values[0] && r.f === -0.1 && r.n === '1.500' && r.t === values[3] && r.b.equals(values[4]) &&
      r.ts.getTime() === when.getTime() && JSON.stringify(r.j) === JSON.stringify(values[7]) &&
      JSON.stringify(r.ta) === JSON.stringify(values[9]) && r.u === values[10], r);
  }
  const returned = (await two.query('UPDATE nd SET t = t || random() WHERE id = 2 RETURNING t')).rows[0].t;
  check('RETURNING', returned === await value(one, 'SELECT t FROM nd WHERE id = 2'), returned);
}

async function transactions(one, two) {
  await one.query('CREATE TABLE acc (id int PRIMARY KEY, v int); INSERT INTO acc VALUES (1, 0), (2, 0)');
  check('several statements in one', await value(two, 'SELECT count(*) FROM acc') === '2');
  await one.query('BEGIN');
  await one.query('UPDATE acc SET v = $1 WHERE id = $2', [7, 1]);
  await one.query('SAVEPOINT s');
  await one.query('INSERT INTO acc VALUES (1, 1)').catch(() => one.query('ROLLBACK TO s'));
  await one.query('COMMIT');
  check('a transaction with a savepoint', await value(two, 'SELECT v FROM acc WHERE id = 1') === 7);

  let code = '';
  await one.query('BEGIN; UPDATE acc SET v = v + 1 WHERE id = 2');
  try {
    await two.query('BEGIN; UPDATE acc SET v = v + 10 WHERE id = 2');
    await one.query('COMMIT');
    await two.query('COMMIT');
  } catch (e) {
    code = e.code;
    await two.query('ROLLBACK');
  }
  check('of two writers one gets 40001', code === '40001', code);
  for (let tries = 0; tries < 10; tries++) {
    try {
      await two.query('UPDATE acc SET v = v + 10 WHERE id = 2');
      break;
    } catch (e) {
      if (e.code !== '40001') throw e;
    }
  }
  check('and succeeds when it retries', await value(one, 'SELECT v FROM acc WHERE id = 2') === 11, await value(one, 'SELECT v FROM acc WHERE id = 2'));
}

async function pool(one, two) {
  await one.query('CREATE TABLE pooled (id int PRIMARY KEY, v text)');
  const p = new Pool({ ...config(1), max: 5 });
  await Promise.all(Array.from({ length: 200 }, (_, i) => p.query('INSERT INTO pooled VALUES ($1, $2)', [i, 'pool'])));
  const c = await p.connect();
  const queued = [];
  for (let i = 200; i < 250; i++) queued.push(c.query({ name: 'q', text: 'INSERT INTO pooled VALUES ($1, $2)', values: [i, 'queued'] }));
  await Promise.all(queued);
  c.release();
  await p.end();
  check('a pool and queued queries', await value(two, 'SELECT count(*) FROM pooled') === '250');
}

async function prepared(one, two) {
  const query = (i) => one.query({ name: 'before and after', text: 'INSERT INTO pooled (id, v) VALUES ($1, $2)', values: [i, 'prepared'] });
  for (let i = 1000; i < 1010; i++) await query(i);
  await two.query('ALTER TABLE pooled ADD w int DEFAULT 5');
  for (let i = 1010; i < 1020; i++) await query(i);
  check('prepared before and after DDL of the other node', await value(two, "SELECT sum(w) FROM pooled WHERE v = 'prepared'") === '100');
}

async function notifications(one, two) {
  const got = new Promise((resolve) => two.on('notification', resolve));
  await two.query('LISTEN ch');
  await one.query("SELECT pg_notify('ch', $1)", ['hello']);
  check('a notification of the other node', (await got).payload === 'hello');
}

async function main() {
  for (const part of [parameters, transactions, pool, prepared, notifications]) {
    const [one, two] = [new Client(config(1)), new Client(config(2))];
    try {
      await one.connect();
      await two.connect();
      await part(one, two);
    } catch (e) {
      console.error(e);
      check(part.name, false, e.message);
    }
    await one.end();
    await two.end();
  }
  process.exit(failed ? 1 : 0);
}

main();
