'use strict';
// What an application does with node's `pg`: parameters, prepared statements, transactions, errors, cursors, notifications, a pool.

const assert = require('node:assert');
const { Client, Pool } = require('pg');
const Cursor = require('pg-cursor');

async function fails(promise, code) {
  await assert.rejects(promise, (error) => {
    assert.strictEqual(error.code, code, error.message);
    return true;
  });
}

async function main() {
  const client = new Client();
  await client.connect();
  await client.query(`create table item (id integer generated always as identity primary key, name text not null unique,
    price numeric(10, 2), made timestamptz, tags text[], extra jsonb, raw bytea, big bigint, ok boolean, ratio double precision)`);

  // Values of many types, there and back.
  const made = new Date('2026-11-23T12:34:56.789Z');
  const values = ['first', '12.50', made, ['a', 'b "c"'], { deep: [1, null] }, Buffer.from([0, 255]), '9007199254740993', true, 0.1];
  const insert = `insert into item (name, price, made, tags, extra, raw, big, ok, ratio)
    values ($1, $2, $3, $4, $5, $6, $7, $8, $9) returning *`;
  const row = (await client.query(insert, values)).rows[0];
  assert.deepStrictEqual({ ...row }, {
    id: 1, name: 'first', price: '12.50', made, tags: ['a', 'b "c"'], extra: { deep: [1, null] }, raw: Buffer.from([0, 255]),
    big: '9007199254740993', ok: true, ratio: 0.1,
  });

  // A statement with a name is prepared once; several statements in one message; rows as arrays.
  for (let number = 0; number < 50; number += 1) {
    const found = await client.query({ name: 'by id', text: 'select name from item where id = $1', values: [number], rowMode: 'array' });
    assert.deepStrictEqual(found.rows, number === 1 ? [['first']] : []);
  }
  const results = await client.query('select 1 as one; select 2 as two; update item set ok = not ok');
  assert.deepStrictEqual(results.map((result) => [result.command, result.rowCount]), [['SELECT', 1], ['SELECT', 1], ['UPDATE', 1]]);

  // Errors leave the connection usable; a transaction that failed takes nothing but its end.
  await fails(client.query('selec 1'), '42601');
  await fails(client.query('insert into item (name) values ($1)', ['first']), '23505');
  await fails(client.query('select $1::integer', ['x']), '22P02');
  await client.query('begin');
  await client.query('insert into item (name) values ($1)', ['taken back']);
  await fails(client.query('select 1 / 0'), '22012');
  await fails(client.query('select 1'), '25P02');
  await client.query('rollback');
  await client.query('begin isolation level serializable');
  await client.query('savepoint one');
  await fails(client.query('select * from nowhere'), '42P01');
  await client.query('rollback to one');
  await client.query(`insert into item (name, tags) select 'item ' || n, array[n::text] from generate_series(1, 1000) as n`);
  await client.query('commit');

  // Rows in portions.
  const cursor = client.query(new Cursor('select id from item order by id'));
  let rows = 0;
  for (let portion = await cursor.read(300); portion.length > 0; portion = await cursor.read(300)) {
    rows += portion.length;
  }
  assert.strictEqual(rows, 1001);
  await cursor.close();

  // A notification from another connection.
  const other = new Client();
  await other.connect();
  await client.query('listen news');
  const told = new Promise((resolve) => { client.once('notification', resolve); });
  await other.query(`notify news, 'hello'`);
  assert.strictEqual((await told).payload, 'hello');

  // A cancel of what another connection runs.
  const running = client.query('select count(*) from generate_series(1, 1000000000)');
  const refused = fails(running, '57014');
  // A cancel that comes before the statement would end nothing.
  const cancel = `select pg_cancel_backend(pid) from pg_stat_activity
    where pid = $1 and state = 'active' and query like 'select count%'`;
  while ((await other.query(cancel, [client.processID])).rowCount === 0);
  await refused;
  await other.end();

  // A pool: many clients that count.
  const pool = new Pool({ max: 8 });
  await pool.query('create table counter (n integer)');
  await pool.query('insert into counter values (0)');
  await Promise.all(Array.from({ length: 200 }, () => pool.query('update counter set n = n + 1')));
  assert.strictEqual((await pool.query('select n from counter')).rows[0].n, 200);
  await pool.end();
  await client.query('drop table item, counter');
  await client.end();
  console.log('done');
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
