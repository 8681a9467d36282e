import assert from 'node:assert/strict';
import test from 'node:test';
import { PRIORITY } from '../../../src/collect/ports.js';
import { BudgetOverrunError } from '../../../src/kernel/budget.js';
import { every, fillAll, START_S, signal, TradeWorld } from '../../support/worlds/trade-world.js';

/** The walk over a history that is written down trade by trade, over both endpoints. */

test('where history is one endpoint, its pages prove trades with their exact times', async () => {
  const world = new TradeWorld(every(2500, 0.5), 1300);
  const walker = world.walkerOfHistory();
  assert.equal(walker.times, undefined);
  await walker.pollHead(signal);
  await fillAll(walker);
  assert.deepEqual([...new Set(world.exchange.asked.map(({ endpoint }) => endpoint))], ['history']);
  assert.deepEqual(world.covered(), [[1, 1300]]);
  assert.equal(world.untimed, 0);
  world.assertHonest();
  world.record.assertAccounted('trades');
});

test('a short absence leaves no gap in an empty market, a long one does', async () => {
  const world = new TradeWorld([], 100);
  const look = async (walker: ReturnType<TradeWorld['walker']>, times: number) => {
    for (let time = 0; time < times; time += 1) {
      await walker.pollHead(signal);
      world.clock.advance(6000);
    }
  };
  await look(world.walker(), 4);
  world.clock.advance(600_000);
  await look(world.walker(), 4);
  assert.equal(world.covered().length, 1);
  assert.equal(world.covered()[0]?.[0], 99);
  world.clock.advance(1_000_000);
  await look(world.walker(), 4);
  assert.equal(world.covered().length, 2, 'what happened meanwhile may have been forgotten');
  world.keptAtLeastMs = 300_000;
  let told: unknown;
  world.archive.before = (_method, batch) => {
    told = batch?.claims?.[0]?.evidence;
  };
  world.clock.advance(600_000);
  await look(world.walker(), 4);
  assert.equal(world.covered().length, 3, 'how long that takes is a setting');
  assert.deepEqual(told, { endpoint: 'historyResult', empty: true, keptAtLeastS: 300 });
});

test('pages below all that is known are not held against what is stored', async () => {
  const world = new TradeWorld(every(1000, 1), 1000);
  world.cap = 100;
  const walker = world.walker();
  await walker.pollHead(signal);
  let reads = 0;
  world.archive.before = (method) => {
    reads += method === 'storedTrades' ? 1 : 0;
  };
  await fillAll(walker);
  assert.deepEqual(world.covered(), [[1, 1000]]);
  assert.equal(reads, 0);
});

test('a known trade with other fields is let through, counted as a conflict, and the first stays', async () => {
  const world = new TradeWorld(every(20, 1), 30);
  const walker = world.walker();
  await walker.pollHead(signal);
  world.trades[19] = { tid: 20, atS: 19, price: '11' };
  world.clock.advance(6000);
  await walker.pollHead(signal);
  await walker.pollHead(signal);
  assert.equal(world.record.outcomesOf('trades').conflict, 1, 'once');
  assert.equal(world.archive.trades.get(`7 ${START_S + 19} 20`)?.price, '10');
  world.record.assertAccounted('trades');
});

test('a page in no order at all is read in that of its ids, and covers what it would otherwise', async () => {
  const world = new TradeWorld(every(20, 1), 30);
  const inOrder = world.exchange.answers.historyResult ?? assert.fail();
  world.exchange.answers.historyResult = async (params) => {
    const rows = (await inOrder(params)) as unknown[];
    return rows.map((_, at) => rows[(at * 7) % rows.length]);
  };
  await world.walker().pollHead(signal);
  assert.deepEqual(world.covered(), [[2, 30]]);
  assert.deepEqual(world.archive.quarantine, []);
  const other = new TradeWorld(every(20, 1), 30);
  other.exchange.answers.historyResult = world.exchange.answers.historyResult;
  const unread = world.trades[10] ?? assert.fail();
  unread.isBroken = true;
  await other.walker().pollHead(signal);
  assert.deepEqual(other.covered(), [], 'a row that cannot be read may lie anywhere in it');
});

/** How each request from now on is sent. */
function optionsOf({ exchange }: TradeWorld): unknown[] {
  const call = exchange.call.bind(exchange);
  const how: unknown[] = [];
  exchange.call = (name, params, options) => {
    how.push(options);
    return call(name, params, options);
  };
  return how;
}

test('a step sends its first request with the turn that was reserved for it, and more of them before others', async () => {
  const world = new TradeWorld(every(200, 1), 200);
  world.cap = 50;
  const walker = world.walker();
  await walker.pollHead(signal);
  world.trades = every(2000, 1);
  world.clock.advance(1_800_000);
  const how = optionsOf(world);
  const turn = await world.exchange.reserve('historyResult', 0, signal);
  await walker.fillStep(signal, turn).catch(() => undefined);
  const others = { priority: PRIORITY.head, signal };
  assert.ok(how.length > 2);
  assert.deepEqual(how, [{ ...others, turn }, ...how.slice(1).map(() => others)]);
});

test('a look sends its first request with the turn that was reserved for it, and more of them before others', async () => {
  const world = new TradeWorld(every(60, 1), 60);
  world.cap = 50;
  const walker = world.walker();
  await walker.pollHead(signal);
  world.trades = every(200, 1);
  world.clock.advance(140_000);
  const how = optionsOf(world);
  const turn = await world.exchange.reserve('historyResult', 0, signal);
  await walker.pollHead(signal, turn);
  const others = { priority: PRIORITY.head, signal };
  assert.ok(how.length > 1);
  assert.deepEqual(how, [{ ...others, turn }, ...how.slice(1).map(() => others)]);
});

test('a step that is broken off by a shutdown counts as no try', async () => {
  for (const mode of ['skip', 'id'] as const) {
    const world = new TradeWorld(every(60, 1), 60);
    world.cap = 50;
    world.mode = mode;
    await world.walker(0).pollHead(signal);
    world.trades = every(500, 1);
    world.clock.advance(440_000);
    world.mode = 'skip';
    const walker = world.walker(0);
    await walker.pollHead(signal);
    world.mode = mode;
    const { memories } = world.archive;
    const before = structuredClone(memories);
    const stopping = new AbortController();
    world.exchange.answers.historyResult = () => {
      stopping.abort();
      throw new Error('the connection was closed');
    };
    assert.notEqual(walker.pendingGap(), undefined);
    await assert.rejects(walker.fillStep(stopping.signal), /was closed/);
    assert.deepEqual(memories, before, `${mode} mode`);
    assert.notEqual(walker.pendingGap(), undefined);
  }
});

test('a step for which there is no room in line counts as no try', async () => {
  const world = new TradeWorld(every(200, 1), 200);
  world.cap = 50;
  const walker = world.walker(0);
  await walker.pollHead(signal);
  const { memories } = world.archive;
  const before = structuredClone(memories);
  world.exchange.answers.historyResult = () => {
    throw new BudgetOverrunError(5);
  };
  await assert.rejects(walker.fillStep(signal), { code: 'budget_overrun' });
  assert.deepEqual(memories, before);
  assert.equal(walker.pendingGap(), undefined, 'it is put off');
});

test('coverage that was taken back elsewhere is read anew, once', async () => {
  const world = new TradeWorld(every(20, 1), 30);
  const walker = world.walker();
  await walker.pollHead(signal);
  let reads = 0;
  world.archive.before = (method) => {
    if (method !== 'coveredRanges') return;
    reads += 1;
    if (reads === 1) throw new Error('no database');
  };
  const { covered } = walker;
  const revokedToMs = (START_S + 10) * 1000;
  walker.revoked({ fromMs: START_S * 1000, toMs: revokedToMs });
  await assert.rejects(walker.pollHead(signal), /no database/);
  assert.deepEqual(walker.covered, [{ fromMs: revokedToMs, toMs: covered[0]?.toMs }]);
  for (let look = 0; look < 3; look += 1) await walker.pollHead(signal);
  assert.equal(reads, 2);
  assert.deepEqual(walker.covered, covered);
});

test('a step into a gap tells its requests, and is no look that reached what was stored', async () => {
  const world = new TradeWorld(every(120, 1), 120);
  world.cap = 50;
  const walker = world.walker();
  await walker.pollHead(signal);
  await fillAll(walker);
  await walker.pollHead(signal);
  const { steps } = world.record;
  const polls = [steps[0], steps.at(-1)].map((one) => [one?.pages, one?.connected]);
  assert.deepEqual(polls, [
    [1, false],
    [1, true],
  ]);
  const into = steps.slice(1, -1);
  assert.ok(into.length > 2);
  assert.ok(into.every(({ connected }) => !connected));
});
