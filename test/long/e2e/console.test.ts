import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import type { z } from 'zod';
import { EVENTS } from '../../../src/console/api/documents.js';
import { ENDPOINTS, type EndpointName } from '../../../src/console/api/endpoints.js';
import { Program } from '../../support/programs/program.js';

/** The API of a daemon that collects: each answer is as the table of endpoints says. */

const TODAY = new Date().toISOString().slice(0, 10);

/** Requests by endpoint; those with a gap's id are made of the answer to `gaps`. */
const PATHS: Partial<Record<EndpointName, string>> = {
  ...{
    who: '',
    status: '?kind=trades,candles&worst=3',
    activity: '',
    storage: '',
    log: '?limit=5',
  },
  ...{ settings: '', markets: '', coverage: '?market=BTC_USDT&from=1h', gaps: '', incidents: '' },
  ...{ days: '', day: '', candles: '?market=BTC_USDT', trades: '?market=BTC_USDT' },
  ...{ book: '?market=BTC_USDT', cookbook: '', partitions: '', quarantine: '' },
};

test('each endpoint of a daemon answers as the table says', { timeout: 180_000 }, async (t) => {
  const cwd = await mkdtemp(join(tmpdir(), 'tapekeep-console-'));
  t.after(() => rm(cwd, { recursive: true, force: true }));
  const env = { TAPEKEEP_HTTP_PORT: '0' };
  const daemon = new Program(['start'], { cwd, env });
  t.after(() => daemon.dispose());
  const url = await daemon.page();
  await daemon.until(async () => (await fetch(new URL('/readyz', url))).ok);
  for (const [name, query] of Object.entries(PATHS) as [EndpointName, string][]) {
    const path = ENDPOINTS[name].path.replace('{market}/{kind}/{day}', `BTC_USDT/trades/${TODAY}`);
    const answer = await fetch(new URL(`/api/v1${path}${query}`, url));
    const body: unknown = await answer.json();
    assert.equal(answer.status, 200, `${name}: ${JSON.stringify(body)}`);
    const parsed = (ENDPOINTS[name].answer as z.ZodType).safeParse(body);
    assert.ok(parsed.success, `${name}: ${parsed.error?.message}`);
  }
  const sql = { sql: 'select count(*) as trades from trades' };
  const asked = await fetch(new URL('/api/v1/query', url), {
    ...{ method: 'POST', body: JSON.stringify(sql) },
    headers: { 'content-type': 'application/json' },
  });
  const { rows } = ENDPOINTS.query.answer.parse(await asked.json());
  assert.match(String(rows[0]?.[0]), /^\d+$/);
  const pages = await fetch(url);
  assert.match(await pages.text(), /<script type="module" src="\/assets\/app\.js">/);

  const listening = new AbortController();
  const topics = 'state,activity,changed,trades:BTC_USDT,book:BTC_USDT';
  const stream = await fetch(new URL(`/api/v1/events?topics=${topics}`, url), {
    signal: listening.signal,
  });
  const names = new Set<string>();
  let text = '';
  for await (const bytes of stream.body ?? []) {
    text += Buffer.from(bytes as Uint8Array).toString();
    for (const [, name = '', data = ''] of text.matchAll(/^event: (.*)\ndata: (.*)\n\n/gm)) {
      EVENTS[name as keyof typeof EVENTS].parse(JSON.parse(data));
      names.add(name);
    }
    if (names.size === 5) break;
  }
  listening.abort();
  daemon.kill('SIGTERM');
  assert.deepEqual(await daemon.ended(), { code: 0, signal: null });
});
