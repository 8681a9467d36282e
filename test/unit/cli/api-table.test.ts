import assert from 'node:assert/strict';
import test from 'node:test';
import { fixTimes, relativeTimeArgument } from '../../../src/cli/api/access.js';
import { likelyCause } from '../../../src/cli/api/advice.js';
import { linesOf } from '../../../src/cli/api/rows.js';
import { loadCommands } from '../../../src/cli/command.js';
import { lineOf } from '../../../src/cli/commands/api-watch.js';
import { kebabCase } from '../../../src/cli/options.js';
import { buildProgram } from '../../../src/cli/program.js';
import { endpointNames, endpoints } from '../../../src/contract/endpoints.js';
import type { Market } from '../../../src/contract/resources.js';

/** `tapekeep api`, with all that is below it. */
async function apiProgram() {
  const { commands } = await loadCommands(buildProgram(() => undefined));
  const program = commands.find((command) => command.name() === 'api');
  return program ?? assert.fail('no api');
}

test('every endpoint is a command, and every parameter one of its options', async () => {
  const program = await apiProgram();
  const names = program.commands.map((command) => command.name());
  assert.deepEqual(names, [...endpointNames.map(kebabCase), 'watch', 'help']);
  assert.ok(names.includes('history-result') && names.includes('order-new'));
  for (const [index, name] of endpointNames.entries()) {
    const flags = program.commands[index]?.options.map((option) => option.attributeName()) ?? [];
    for (const param of Object.keys(endpoints[name].params.shape)) {
      assert.ok(flags.includes(param), `${name} ${param}`);
    }
    assert.equal(flags.includes('post'), endpoints[name].access === 'public');
  }
});

test('no option takes a key or a secret: arguments are seen by everybody on a machine', async () => {
  const program = await apiProgram();
  const flags = program.commands.flatMap((command) => command.options.map(({ flags }) => flags));
  assert.ok(flags.length > 30);
  for (const flag of flags) assert.doesNotMatch(flag, /key|secret|pass|token|sign|nonce/i);
});

test('options say what the table says: meaning, default, choices', async () => {
  const program = await apiProgram();
  const optionsOf = (name: string) =>
    program.commands.find((command) => command.name() === name)?.options ?? [];
  const depth = optionsOf('depth').slice(0, 2);
  assert.deepEqual(
    depth.map(({ flags }) => flags),
    ['--market <name>', '--limit <number>'],
  );
  assert.match(depth[1]?.description ?? '', /\(default: 50\)/);
  const [, , , interval] = optionsOf('kline');
  assert.match(interval?.description ?? '', /seconds.*\(default: 60\)/);
  const side = optionsOf('book').find((option) => option.attributeName() === 'side');
  assert.deepEqual([side?.argChoices, side?.mandatory], [['buy', 'sell'], true]);
  const moments = endpointNames.flatMap((name) =>
    optionsOf(kebabCase(name)).flatMap((option) =>
      /-5m/.test(option.description) ? [`${name} ${option.attributeName()}`] : [],
    ),
  );
  assert.deepEqual(moments, ['kline start', 'kline end']);
});

test('times are UNIX seconds or ISO with a zone; anything else is refused', () => {
  const noonS = Date.UTC(2026, 0, 31, 12) / 1000;
  const good: Record<string, number> = {
    '1769860800': 1_769_860_800,
    '2026-01-31T12:00:00Z': noonS,
    '2026-01-31T12:00Z': noonS,
    '2026-01-31T14:00:00+02:00': noonS,
    '2026-01-31T12:00:00.000Z': noonS,
    '2026-01-31': noonS - 43_200,
  };
  for (const [text, seconds] of Object.entries(good)) {
    assert.deepEqual(relativeTimeArgument(text), { atMs: seconds * 1000, text });
  }
  for (const text of ['soon', '-5', '1.5', '2026-01-31T12:00:00', '2026-01-31T12:00:00.5Z', '']) {
    assert.throws(() => relativeTimeArgument(text), /zone/, text);
  }
});

test('times may be counted back from the present of the exchange, whatever that is', async () => {
  const presentMs = Date.UTC(2026, 0, 31, 12) + 900;
  const asked: string[] = [];
  const access = {
    client: { markets: () => Promise.resolve(asked.push('markets')) },
    time: { nowMs: () => presentMs },
  } as unknown as Parameters<typeof fixTimes>[1];
  const noonS = Date.UTC(2026, 0, 31, 12) / 1000;
  for (const [text, seconds] of [
    ['now', noonS],
    ['5m', noonS - 300 + 0],
    ['-5m', noonS - 300],
    ['-1.5h', noonS - 5400],
  ] as const) {
    const given = { market: 'A_B', start: relativeTimeArgument(text), end: noonS };
    assert.deepEqual(await fixTimes(given, access), { ...given, start: seconds });
  }
  assert.equal(asked.length, 4);
  const fixed = { start: relativeTimeArgument('2026-01-31T12:00:00Z') };
  assert.deepEqual(await fixTimes(fixed, access), { start: noonS });
  assert.equal(asked.length, 4, 'nothing is asked without need');
  const swapped = { start: relativeTimeArgument('2026-02-01'), end: relativeTimeArgument('-5m') };
  await assert.rejects(
    fixTimes(swapped, access),
    /--start: "2026-02-01" .* must not be after --end, -5m \(2026-01-31T11:55:00.000Z\)/,
  );
  for (const text of ['soon', '--5m', '-5', 'now-5m', '-']) {
    assert.throws(() => relativeTimeArgument(text), /zone.*now.*5m/, text);
  }
});

test('a vague refusal is held against the list of markets', () => {
  const row = { name: 'A_B', stock: 'A', money: 'B', stockPrec: 3, moneyPrec: 2, feePrec: 4 };
  const markets = [{ ...row, minAmount: '0.5' }] as unknown as Market[];
  const order = { market: 'A_B', price: '10.50', amount: '1.0000' };
  const cause = (change: object) => likelyCause({ ...order, ...change }, markets) ?? '';
  assert.match(cause({ market: 'A_C' }), /^A_C is not among its 1 market: A_B$/);
  assert.match(cause({ price: '10.505' }), /price 10\.505 has more decimal places than the 2 of B/);
  assert.match(
    cause({ amount: '1.0005' }),
    /amount 1\.0005 has more decimal places than the 3 of A/,
  );
  assert.match(cause({ amount: '0.499' }), /amount 0\.499 is below 0\.5 A/);
  assert.match(cause({}), /funds may be short/);
  assert.equal(likelyCause({ market: 'A_B' }, markets), undefined);
});

test('results are tables: times in UTC, numbers to the right, nothing that moves the cursor', () => {
  const lines = linesOf('depth', {
    asks: [['101.5', '3']],
    bids: [
      ['99', '1'],
      ['100', '20'],
    ],
  });
  assert.deepEqual(lines, [
    'bid amount  bid    ask  ask amount',
    '        20  100  101.5           3',
    '         1   99',
  ]);
  const balances = { 'A\u001b[2J': { available: '1.5', freeze: '0' } };
  const shown = linesOf('balances', balances, (line) => `*${line}*`);
  assert.match(shown[0] ?? '', /^\*currency .*freeze\*$/);
  assert.match(shown[1] ?? '', /^A·\[2J +1\.5 +0$/);
  const empty = { offset: 0, limit: 50, total: 0, result: [] };
  assert.deepEqual(linesOf('orders', empty), ['offset 0, limit 50, total 0', '(nothing)']);
  const trade = { id: 7, price: '1', type: 'buy', amount: '2', total: '2' } as const;
  const [, row] = linesOf('history', [{ ...trade, time: 1_769_860_800.25 }]);
  assert.match(row ?? '', /2026-01-31 12:00:00\.250Z/);
  const [, far] = linesOf('history', [{ ...trade, time: 1e15 }]);
  assert.match(far ?? '', /1000000000000000/);
});

test('a watched event is one line', () => {
  const record = { period: 60, last: '5', open: '4', close: '5', high: '6', low: '3' };
  const figures = { ...record, deal: '7', volume: '8', change: null };
  const exchangeMs = Date.UTC(2026, 0, 31, 12);
  assert.equal(
    lineOf({ kind: 'record', origin: 'update', record: figures, receivedAtMs: 0, exchangeMs }, 0),
    '2026-01-31 12:00:00.000Z  update    last 5  open 4  close 5  high 6  low 3  volume 8  deal 7',
  );
  const closed = {
    kind: 'closed',
    code: 1006,
    reason: 'stalled',
    exchangeMs: 0,
    livedMs: 4000,
  } as const;
  assert.match(
    lineOf({ ...closed, exchangeMs, lastAliveExchangeMs: exchangeMs }, exchangeMs),
    /closed {4}stalled \(1006\) after 4\.0s, sure up to 2026-01-31 12:00:00\.000Z$/,
  );
  assert.match(lineOf({ kind: 'retrying', waitMs: 500, attempts: 2 }, 0), /retrying.*try 2$/);
});
