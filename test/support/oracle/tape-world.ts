import { readFileSync } from 'node:fs';
import type { FaultRuleInput } from '../../../src/sandbox/faults/script.js';
import type { RecordedTrade } from '../exchanges/recorded.js';
import type { OracleWorld } from './world.js';

/** What befalls the replies, now and then, while a tape is collected. */
const FAULTS: readonly FaultRuleInput[] = [
  { kind: 'latency', ms: 20, jitterMs: 150 },
  { kind: 'status', status: 503 },
  { kind: 'html', status: 502 },
  { kind: 'truncate' },
  { kind: 'malformed' },
  { kind: 'emptyBody' },
  { kind: 'hang', ms: 200 },
  { kind: 'reset' },
  { kind: 'duplicateRows', rows: 20 },
  { kind: 'conflictRows', rows: 5, place: 'behind' },
  { kind: 'badRows', rows: 2 },
  { kind: 'shortPage' },
  { kind: 'stuckPage', ms: 500 },
  { kind: 'wrongDate', form: 'frozen' },
];

/** A whole tape, all faults on both endpoints, and three kills in the middle of a write. */
export function tapeWorld(trades: readonly RecordedTrade[], pace: number): OracleWorld {
  const rules = (['historyResult', 'history'] as const).flatMap((where, endpoint) =>
    FAULTS.map((rule, at) => ({
      ...rule,
      id: `${rule.kind}-${where}`,
      where,
      // No two of them at the same reply again and again.
      every: 9 + ((at * 5 + endpoint) % 11),
      after: 2 + at,
      // Each failure lengthens the pause before the next try.
      maxCount: 2,
    })),
  );
  return {
    seed: 7,
    trades,
    pace,
    isStartLater: false,
    startOffsetS: 20,
    variants: { rateLimit: false },
    rules,
    kills: [
      { atWrite: 10, isForwarded: true },
      { atWrite: 25, isForwarded: false },
      { atWrite: 40, isForwarded: true },
    ],
    kinds: ['trades'],
    settings: {
      TAPEKEEP_STREAMS_TRADES_EXACT_TIMES: 'true',
      TAPEKEEP_STREAMS_CANDLES_ENABLED: 'true',
      TAPEKEEP_STREAMS_CANDLES_HISTORY: '1h',
    },
  };
}

/** A tape file (`id,time_ms,price,amount,side`), oldest first. */
export function readTape(path: string): RecordedTrade[] {
  const [, ...lines] = readFileSync(path, 'utf8').trim().split('\n');
  const trades = lines.map((line) => {
    const [id, timeMs, price = '', amount = '', side] = line.trim().split(',');
    const taker = side === 'buy' ? ('buy' as const) : ('sell' as const);
    return { id: Number(id), timeMs: Number(timeMs), price, amount, side: taker };
  });
  return trades.sort((a, b) => a.id - b.id);
}
