// The recipe for node-postgres of docs/clients.md: see tests/drivers/recipes.pl for what it reads and prints.
'use strict';
const { Pool } = require('pg');
const { prepare, run } = require(process.argv[2] + '/lockstep.js');

const lines = require('readline').createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const next = async () => (await lines.next()).value;
const size = +process.env.POOL;
const pool = prepare(new Pool({ host: '127.0.0.1', port: +process.env.PORT1, database: process.env.DB, user: process.env.DBUSER, max: size, idleTimeoutMillis: 0 }));

(async () => {
  for (const client of await Promise.all(Array.from({ length: size }, () => pool.connect()))) client.release();
  for (let line; (line = await next()); ) {
    try {
      console.log('done ' + await run(pool, async client => {
        for (const step of line.split(';;')) {
          if (step === '@') {
            console.log('at');
            await next();
          } else await client.query(step);
        }
        return 'its result';
      }));
    } catch (error) {
      console.log('failed ' + String(error).replace(/\n/g, ' '));
    }
  }
  await pool.end();
})();
