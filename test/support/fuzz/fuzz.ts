import type { TestContext } from 'node:test';
import type { Random } from '../../../src/kernel/random.js';
import { drawsOfRun, worlds } from '../seeds.js';

/** What all fuzzing shares: the seed of the run, and mutations of values and bytes. */

export interface Fuzzing {
  readonly count: number;
  readonly random: Random;
}

/** @param count how many cases a usual run has; one that explores has more */
export function startFuzzing(t: TestContext, count: number): Fuzzing {
  return { count: Math.max(count, worlds(count)), random: drawsOfRun(t) };
}

export function below(random: Random, end: number): number {
  return Math.floor(random() * end);
}

export function pick<T>(random: Random, choices: readonly T[]): T {
  return choices[below(random, choices.length)] as T;
}

function nested(depth: number): unknown {
  let value: unknown = 1;
  for (let level = 0; level < depth; level += 1) value = [value];
  return value;
}

/** Values at the edges of what the contract admits, and far beyond. */
export const ODD_VALUES: readonly unknown[] = [
  ...[null, true, false, 0, -0, 1, -1, 0.5, 1e-7, 1e21, 1e308, 2 ** 53 - 1, 2 ** 53, 2 ** 31],
  ...['', ' ', '0', '-0', '-0.00', '00.10', '1.', '.5', '1.5', '-1.5', '+1', '1e-8', '0E8', '1e40'],
  ...[
    '1e41',
    '1e999',
    '-1e-40',
    '0x10',
    '1_0',
    '１',
    '1 ',
    'NaN',
    'Infinity',
    'buy',
    'sell',
    'BUY',
  ],
  ...['9'.repeat(39), '9'.repeat(40), '9'.repeat(60), '9'.repeat(61), '9'.repeat(81)],
  ...['9', '-9'].flatMap((start) => [38, 39, 40, 41].map((n) => `${start}.${'7'.repeat(n)}`)),
  ...[38, 39, 40].map((n) => `${'8'.repeat(n)}.${'7'.repeat(n)}`),
  ...[38, 39, 40].map((n) => `-${'8'.repeat(n)}.${'7'.repeat(n)}`),
  ...['9007199254740991', '9007199254740993', '1.790138674365E9', '\ud800', '\u0000', '<', '{}'],
  ...['x'.repeat(64), 'x'.repeat(65), '😀'.repeat(32), '😀'.repeat(33), '__proto__', 'constructor'],
  ...[[], {}, [null], [[]], { '': 0 }, nested(50), nested(2000), { success: 'true' }],
  // Nothing can compare these: JSON may name the methods by which that is done.
  { length: { valueOf: 1, toString: 1 } },
];

const ODD_NAMES = ['', '__proto__', 'constructor', 'toString', 'asks', 'bids', 'market', 'success'];

function setOwn(target: object, name: string, value: unknown): void {
  Object.defineProperty(target, name, {
    ...{ value, writable: true, enumerable: true, configurable: true },
  });
}

/** A copy of a decoded JSON value with something changed somewhere in it. */
export function mutateValue(random: Random, value: unknown): unknown {
  const entries = typeof value === 'object' && value !== null ? Object.entries(value) : [];
  // Deeper is likelier, so that the leaves of large values are reached.
  if (entries.length === 0 || random() < 0.15) return pick(random, ODD_VALUES);
  const at = below(random, entries.length);
  const [name, entry] = entries[at] as [string, unknown];
  const what = random();
  if (what < 0.1) entries.splice(at, 1);
  else if (what < 0.15) entries.splice(at, 0, [name, entry]);
  else if (what < 0.25) entries.push([pick(random, ODD_NAMES), pick(random, ODD_VALUES)]);
  else entries[at] = [name, mutateValue(random, entry)];
  if (Array.isArray(value)) return entries.map(([, kept]) => kept);
  const copy = {};
  for (const [kept, held] of entries) setOwn(copy, kept, held);
  return copy;
}

const ODD_BYTES: readonly string[] = [
  ...['\0', '\r\n', '\n', '\r\n\r\n', ' ', '%', '"', '{', ']', ':', '\xff', '\xc3', '-', '0'],
  ...['Content-Length: 5\r\n', 'Transfer-Encoding: chunked\r\n', 'HTTP/1.1', '1e999', '\\ud800'],
];

/** A copy of `bytes` with something changed, put in, taken out or cut off. */
export function mutateBytes(random: Random, bytes: Buffer): Buffer {
  const at = below(random, bytes.length + 1);
  const to = Math.min(bytes.length, at + 1 + below(random, random() < 0.8 ? 8 : bytes.length));
  const [before, slice, after] = [
    bytes.subarray(0, at),
    bytes.subarray(at, to),
    bytes.subarray(to),
  ];
  const what = random();
  if (what < 0.15) return Buffer.from(before);
  if (what < 0.3) return Buffer.concat([before, after]);
  if (what < 0.45) return Buffer.concat([before, slice, slice, after]);
  if (what < 0.7) {
    const odd = Buffer.from(pick(random, ODD_BYTES), 'latin1');
    return Buffer.concat([before, odd, bytes.subarray(at)]);
  }
  const flipped = Buffer.from(bytes);
  for (let index = at; index < to; index += 1) flipped[index] = below(random, 256);
  return flipped;
}
