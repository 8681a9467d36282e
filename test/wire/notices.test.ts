import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import test, { type TestContext } from 'node:test';
import {
  type Change,
  type Circumstances,
  HOLD_MS,
  MOST_PER_HOUR,
  Notices,
  runbookOf,
} from '../../src/cli/notices/notices.js';
import { noticeText, Webhook, type WebhookOptions } from '../../src/cli/notices/webhook.js';
import { LEAST_FREE_SHARE } from '../../src/console/state.js';
import { HOUR_MS, MINUTE_MS, SECOND_MS } from '../../src/kernel/durations.js';
import { anchorsOf, readDocument } from '../support/documents/documents.js';
import {
  type HttpStub,
  type SeenRequest,
  startHttpStub,
} from '../support/exchanges/stub-server.js';
import { Watch } from '../support/exchanges/watch.js';
import { FakeClock } from '../support/fake-clock.js';
import { repositoryPath } from '../support/repository/repository.js';

/** Notices to a receiver over real HTTP, on a clock that the test moves. */

const SENDER = { exchange: 'exchange.test', host: 'box', version: '1.2.3' };
const SECRET = 'bot123:sEcReT';

type Answer = Parameters<typeof startHttpStub>[1];
const taking: Answer = (_, response) => response.end('ok');

class World {
  readonly clock = new FakeClock();
  readonly failures: string[] = [];
  sent = 0;
  state: Circumstances = { checks: [], disks: [], unfillableMs: undefined };
  readonly notices: Notices;
  readonly #watch = new Watch();
  readonly #ending = new AbortController();
  readonly stub: HttpStub;

  constructor(stub: HttpStub, receiver: Webhook, clock: FakeClock) {
    this.stub = stub;
    this.clock = clock;
    this.notices = new Notices({
      ...{ clock, random: () => 0.5 },
      telemetry: {
        noticeSent: () => {
          this.sent += 1;
          this.#watch.wake();
        },
        noticeFailed: ({ message }) => {
          this.failures.push(message);
          this.#watch.wake();
        },
      },
      look: async () => this.state,
      send: (changes, signal) => receiver.send(SENDER, changes, signal),
    });
  }

  static async open(
    t: TestContext,
    answer: Answer = taking,
    options: Partial<WebhookOptions> = {},
  ): Promise<World> {
    const stub = await startHttpStub(t, answer);
    const clock = new FakeClock();
    const url = `${stub.baseUrl}/${SECRET}?chat_id=-7`;
    const receiver = new Webhook({ url, format: 'json', clock, ...options });
    const world = new World(stub, receiver, clock);
    const running = world.notices.run(world.#ending.signal);
    t.after(async () => {
      world.#ending.abort();
      await running;
      await receiver[Symbol.asyncDispose]();
    });
    await clock.run(0);
    return world;
  }

  check(name: string, ok: boolean, detail = ''): void {
    const others = this.state.checks.filter((one) => one.name !== name);
    this.state = { ...this.state, checks: [...others, { name, ok, detail }] };
  }

  /** Moves time; what is sent meanwhile gets its answer first. */
  async pass(ms: number): Promise<void> {
    for (let left = ms; left > 0; left -= 5 * SECOND_MS) {
      const asked = this.sent + this.failures.length;
      await this.clock.run(Math.min(left, 5 * SECOND_MS));
      if (this.stub.seen.length > asked) await this.answered(asked + 1);
    }
  }

  async answered(count: number): Promise<void> {
    await this.#watch.until(() => this.sent + this.failures.length >= count);
    await this.clock.run(0);
  }

  /** Changes of each notice that came. */
  get told(): string[][] {
    return this.stub.seen.map(({ body }) =>
      (JSON.parse(body) as { changes: Change[] }).changes.map(
        ({ change, check }) => `${check} ${change}`,
      ),
    );
  }
}

test('a change that lasts a minute is told once when it comes and once when it ends', async (t) => {
  const world = await World.open(t);
  world.check('database', true);
  await world.pass(10 * MINUTE_MS);
  assert.deepEqual(world.told, []);
  world.check('database', false, 'no answer within 3 s');
  const sinceMs = world.clock.wallMs();
  await world.pass(HOLD_MS);
  assert.deepEqual(world.told, []);
  await world.pass(2 * HOUR_MS);
  assert.deepEqual(world.told, [['database fired']]);
  const [{ method, headers, body, url } = assert.fail()] = world.stub.seen as [SeenRequest];
  assert.deepEqual([method, url], ['POST', `/${SECRET}?chat_id=-7`]);
  assert.equal(headers['content-type'], 'application/json');
  const { text, changes, ...rest } = JSON.parse(body) as { text: string; changes: Change[] };
  assert.equal(text, noticeText(SENDER, changes));
  const { at, ...sender } = rest as { at: string };
  assert.ok(Date.parse(at) > sinceMs);
  assert.deepEqual(sender, SENDER);
  assert.equal(changes[0]?.detail, 'no answer within 3 s');
  assert.equal(changes[0]?.runbook, 'docs/runbook.md#tapekeepdatabasedown');
  // It is looked at every five seconds.
  assert.ok(Math.abs(Date.parse(changes[0]?.since ?? '') - sinceMs) <= 5 * SECOND_MS);
  world.check('database', true);
  await world.pass(2 * HOLD_MS);
  assert.deepEqual(world.told.slice(1), [['database ended']]);
  assert.equal(world.sent, 2);
});

test('a change that ends within a minute is not told, and changes of one time are one notice', async (t) => {
  const world = await World.open(t);
  for (const name of ['database', 'archive', 'exchange']) world.check(name, true);
  world.check('exchange', false);
  await world.pass(HOLD_MS / 2);
  world.check('exchange', true);
  await world.pass(10 * MINUTE_MS);
  assert.deepEqual(world.told, []);
  for (const name of ['database', 'archive', 'exchange']) world.check(name, false);
  await world.pass(5 * MINUTE_MS);
  // Nothing can be stored while there is no database: that is said already.
  assert.deepEqual(world.told, [['database fired', 'exchange fired']]);
  world.check('database', true);
  await world.pass(5 * MINUTE_MS);
  assert.deepEqual(world.told.slice(1), [['database ended', 'archive fired']]);
});

test('within an hour so many notices are sent, and then what still holds', async (t) => {
  const world = await World.open(t);
  let isGood = true;
  const names = Array.from({ length: 3 }, (_, index) => `check ${index}`);
  for (const name of names) world.check(name, true);
  for (let turn = 0; turn < 3 * MOST_PER_HOUR; turn += 1) {
    isGood = !isGood;
    world.check('check 0', isGood);
    await world.pass(HOLD_MS + 15 * SECOND_MS);
  }
  world.check('check 0', true);
  world.check('check 1', false);
  const withinHour = world.stub.seen.map(({ body }) => Date.parse(JSON.parse(body).at as string));
  for (const [index, atMs] of withinHour.entries()) {
    const later = withinHour[index + MOST_PER_HOUR];
    assert.ok(later === undefined || later - atMs >= HOUR_MS);
  }
  await world.pass(HOUR_MS + HOLD_MS);
  const last = new Map(
    world.told.flat().map((text) => text.split(/ (?=\w+$)/) as [string, string]),
  );
  assert.deepEqual([last.get('check 0'), last.get('check 1')], ['ended', 'fired']);
});

test('a receiver that refuses is asked again with growing pauses, and no message has its address', async (t) => {
  const answers = [500, 404, 302, 200];
  const world = await World.open(t, (_, response, index) => {
    response.writeHead(answers[index] ?? 200, { location: 'http://127.0.0.1:1/' });
    response.end('no');
  });
  world.check('exchange', false, 'no answer yet');
  await world.pass(10 * MINUTE_MS);
  assert.equal(world.stub.seen.length, answers.length);
  assert.deepEqual([world.sent, world.failures.length], [1, 3]);
  const times = world.stub.seen.map(({ body }) => Date.parse(JSON.parse(body).at as string));
  const pauses = times.slice(1).map((atMs, index) => atMs - (times[index] ?? 0));
  assert.ok(
    pauses.every((ms, index) => ms > (pauses[index - 1] ?? 0)),
    String(pauses),
  );
  assert.match(world.failures[1] ?? '', /HTTP 404; correct alerts\.webhook/);
  assert.ok(world.failures.every((text) => !text.includes(SECRET)));
});

test('a receiver that is not there is a failed notice without its address', async (t) => {
  const world = await World.open(t, taking, { url: `http://127.0.0.1:1/${SECRET}` });
  world.check('exchange', false);
  await world.clock.run(HOLD_MS + 10 * SECOND_MS);
  await world.answered(1);
  assert.match(world.failures[0] ?? '', /alerts\.webhook: no answer: .*ECONNREFUSED/);
  assert.ok(!world.failures[0]?.includes(SECRET));
});

test('a receiver that never answers holds nothing up, and is not told what is over', async (t) => {
  const world = await World.open(t, (_, response, index) => {
    if (index > 0) response.end('ok');
  });
  world.check('exchange', false);
  await world.clock.run(HOLD_MS + 5 * SECOND_MS);
  await world.stub.requests(1);
  world.check('exchange', true);
  world.check('database', false);
  await world.clock.run(10 * SECOND_MS);
  await world.answered(1);
  assert.match(world.failures[0] ?? '', /within 10000 ms/);
  await world.pass(5 * MINUTE_MS);
  assert.deepEqual(world.told, [['exchange fired'], ['database fired']]);
});

test('a disk that is nearly full is told, at the share of the alert', async (t) => {
  const rules = readFileSync(join(repositoryPath, 'config', 'prometheus-rules.yml'), 'utf8');
  const [, share] = /disk_free_bytes \/ tapekeep_disk_size_bytes < (\S+)/.exec(rules) ?? [];
  assert.equal(Number(share), LEAST_FREE_SHARE);
  const world = await World.open(t);
  const disk = (freeBytes: number) => {
    const disks = [{ directory: 'data' as const, freeBytes, sizeBytes: 1000 }];
    world.state = { ...world.state, disks };
  };
  disk(100);
  await world.pass(10 * MINUTE_MS);
  assert.deepEqual(world.told, []);
  disk(99);
  await world.pass(5 * MINUTE_MS);
  disk(500);
  await world.pass(5 * MINUTE_MS);
  assert.deepEqual(world.told, [['disk data fired'], ['disk data ended']]);
});

test('time that cannot be fetched any more is told in sum, once an hour', async (t) => {
  const world = await World.open(t);
  const lose = (unfillableMs: number) => {
    world.state = { ...world.state, unfillableMs };
  };
  // What an earlier process knew of is no news.
  lose(90_000);
  await world.pass(5 * MINUTE_MS);
  assert.deepEqual(world.told, []);
  lose(100_000);
  await world.pass(MINUTE_MS);
  lose(160_000);
  await world.pass(MINUTE_MS);
  // Retention takes old gaps away.
  lose(130_000);
  await world.pass(HOUR_MS);
  const details = world.stub.seen.map(
    ({ body }) => (JSON.parse(body) as { changes: Change[] }).changes[0]?.detail,
  );
  assert.deepEqual(world.told, [['gaps lost'], ['gaps lost']]);
  assert.match(details[0] ?? '', /^10s more/);
  assert.match(details[1] ?? '', /^30s more/);
});

test('Slack gets text without markup of its own, Telegram the chat of the address', async (t) => {
  for (const format of ['slack', 'telegram'] as const) {
    const stub = await startHttpStub(t, taking);
    const url = `${stub.baseUrl}/${SECRET}/sendMessage?chat_id=-7`;
    await using receiver = new Webhook({ url, format, clock: new FakeClock() });
    const change: Change = {
      ...{ change: 'fired', check: 'exchange', detail: '<!channel> & *all*' },
      ...{ since: '2026-01-01T00:00:00Z', runbook: runbookOf('exchange') },
    };
    await receiver.send(SENDER, [change], new AbortController().signal);
    const [{ body, url: asked } = assert.fail()] = stub.seen;
    const text = noticeText(SENDER, [change]);
    const slack = text.replace('<!channel> & *', '&lt;!channel&gt; &amp; *');
    assert.deepEqual(JSON.parse(body), { text: format === 'slack' ? slack : text });
    assert.equal(asked, `/${SECRET}/sendMessage?chat_id=-7`);
  }
});

test('what ends the process is told at once, and not waited for longer than three seconds', async (t) => {
  const world = await World.open(t, (_, response, index) => {
    if (index === 0) response.end('ok');
  });
  await world.notices.sendLast(new Error('the exchange is another one'));
  assert.deepEqual(world.told, [['going on fired']]);
  const ended = world.notices.sendLast(new Error('again'));
  await world.stub.requests(2);
  world.clock.advance(3 * SECOND_MS);
  await ended;
});

test('each check leads to a section of the runbook', () => {
  const anchors = anchorsOf(readDocument('docs/runbook.md').text);
  const checks = ['loops', 'going on', 'phase', 'database', 'archive', 'exchange', 'streams'];
  for (const check of [...checks, 'disk data', 'gaps']) {
    const [path, anchor = ''] = runbookOf(check).split('#');
    assert.equal(path, 'docs/runbook.md');
    assert.ok([...anchors].includes(anchor), `${check}: ${anchor}`);
  }
});
