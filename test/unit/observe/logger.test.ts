import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  createLogger,
  type LogFormat,
  type LogLevel,
  RecentLines,
  repeats,
} from '../../../src/observe/logger.js';
import { FakeClock } from '../../support/fake-clock.js';

function open(options: {
  level?: LogLevel;
  format?: LogFormat;
  isTTY?: boolean;
  secrets?: string[];
}) {
  const clock = new FakeClock();
  const lines: string[] = [];
  const logger = createLogger({
    level: options.level ?? 'info',
    format: options.format ?? 'json',
    clock,
    destination: {
      write: (line) => lines.push(line),
      ...(options.isTTY === undefined ? {} : { isTTY: options.isTTY }),
    },
    ...(options.secrets === undefined ? {} : { secrets: options.secrets }),
  });
  return { clock, lines, logger };
}

test('lines are JSON with level name, time of the given clock, message and fields', () => {
  const { lines, logger } = open({});
  logger.write('warn', 'gap found', { stream: 'trades', lengthMs: 5 });
  logger.write('debug', 'not shown');
  assert.equal(lines.length, 1);
  assert.deepEqual(JSON.parse(lines[0] ?? ''), {
    level: 'warn',
    time: '2026-01-01T00:00:00.000Z',
    stream: 'trades',
    lengthMs: 5,
    msg: 'gap found',
  });
});

test('numbers that are not whole have seven digits', () => {
  const { lines, logger } = open({});
  const counted = { rows: 123_456_789, text: '1.23456789', offsetMs: 123_456_789_012 };
  const given = { ...counted, offsetMs: 123_456_789_012.4 };
  logger.write('info', 'request', { waitMs: 3024.159308354796, share: 1 / 15, ...given });
  const { waitMs, share, rows, text, offsetMs } = JSON.parse(lines[0] ?? '') as Record<
    string,
    unknown
  >;
  assert.deepEqual([waitMs, share, { rows, text, offsetMs }], [3024.159, 0.06666667, counted]);
});

test('a terminal gets prose, anything else JSON, unless the format is given', () => {
  const shown = (format: LogFormat, isTTY: boolean) => {
    const { lines, logger } = open({ format, isTTY });
    logger.write('info', 'started', { port: 1 });
    return lines.join('');
  };
  assert.match(shown('auto', false), /^\{/);
  assert.match(shown('auto', true), /INFO/);
  assert.match(shown('json', true), /^\{/);
  assert.match(shown('pretty', false), /INFO.*started/);
});

test('no secret reaches the log, whatever field or text carries it', () => {
  const { lines, logger } = open({ secrets: ['can"ary-token'] });
  logger.write('error', 'cannot reach postgres://me:canary@db/tape?password=canary', {
    error: 'Authorization: Bearer canary-canary',
    token: 'canary',
    nested: { headers: { 'X-TXC-APIKEY': 'canary', 'X-TXC-SIGNATURE': 'canary' } },
    given: 'can"ary-token',
    detail: 'apiKey=canary&a=1',
  });
  assert.equal(lines.length, 1);
  assert.doesNotMatch(lines[0] ?? '', /can\\?"?ary/);
  assert.match(lines[0] ?? '', /postgres:\/\/me:\*\*\*@db\/tape/);
  assert.doesNotThrow(() => JSON.parse(lines[0] ?? '') as unknown);
});

test('a word behind the name of a file is shown, a secret behind that of a value is not', () => {
  const { logger } = open({});
  const plain =
    'the database in /data/postgres has lost its password file /data/postgres.password: restore that file';
  assert.equal(logger.redact(plain), plain);
  const unread = 'cannot read ./run/secrets/api_key: permission denied, token missing';
  assert.equal(logger.redact(unread), unread);
  for (const text of [
    'password: canary',
    'database.password: canary for all',
    'postgres.password=canary',
    '/data/postgres.password=canary for all',
    '{"/data/password": "canary"}',
    "{'a/token': 'canary' }",
    'https://h/a?token=canary and more',
    'https://h/api/token: canary and more',
    '/data/postgres.password: c4nary-and-more',
    'X-TXC-SIGNATURE: canary ',
  ]) {
    assert.doesNotMatch(logger.redact(text), /c[a4]nary/, text);
  }
});

test('a repeating trouble is told once, then once in 30 s with the number kept back', () => {
  const { clock, lines, logger } = open({});
  for (let second = 0; second <= 60; second += 1) {
    logger.writeRepeating('warn', 'key', 'poll failed', { second });
    clock.advance(1000);
  }
  logger.writeRepeating('warn', 'another key', 'poll failed', { second: -1 });
  const told = lines.map((line) => JSON.parse(line) as { second: number; heldBack?: number });
  assert.deepEqual(
    told.map(({ second, heldBack }) => [second, heldBack]),
    [
      [0, undefined],
      [30, 29],
      [60, 29],
      [-1, undefined],
    ],
  );
});

test('only a bounded number of troubles is remembered', () => {
  const noted = repeats(new FakeClock(), 1000);
  assert.equal(noted('first'), 0);
  for (let index = 0; index < 500; index += 1) noted(`key ${index}`);
  assert.equal(noted('key 499'), undefined);
  assert.equal(noted('first'), 0);
});

test('the newest lines are kept with secrets hidden, a thousand at most', () => {
  const recent = new RecentLines();
  const clock = new FakeClock();
  const destination = { write: () => undefined };
  for (const format of ['json', 'pretty'] as const) {
    const secrets = ['a-secret-of-ours'];
    const logger = createLogger({ level: 'debug', format, clock, destination, secrets, recent });
    logger.write('info', 'started', { port: 1, note: 'a-secret-of-ours, postgres://u:word@h/d' });
    logger.write('debug', 'not kept');
    logger.write('warn', 'odd', { code: 'clock_skew' });
    const atMs = clock.wallMs();
    assert.deepEqual(recent.newest('info', 2), [
      { atMs, level: 'warn', event: 'clock_skew', message: 'odd', fields: { code: 'clock_skew' } },
      {
        ...{ atMs, level: 'info', event: '', message: 'started' },
        fields: { port: 1, note: '***, postgres://u:***@h/d' },
      },
    ]);
  }
  assert.deepEqual(
    recent.newest('warn', 5).map(({ message }) => message),
    ['odd', 'odd'],
  );
  assert.deepEqual(recent.newest('error', 5), []);
  const logger = createLogger({ level: 'info', format: 'json', clock, destination, recent });
  for (let at = 0; at < 1500; at += 1) logger.write('info', `line ${at}`);
  const all = recent.newest('info', 5000);
  assert.deepEqual(
    [all.length, all[0]?.message, all.at(-1)?.message],
    [1000, 'line 1499', 'line 500'],
  );
  logger.write('error', 'x'.repeat(100_000), { much: 'y'.repeat(100_000) });
  const [long] = recent.newest('error', 1);
  assert.deepEqual([long?.message.length, long?.fields], [4000, { code: '' }]);
});
