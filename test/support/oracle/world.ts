import type { EndpointName } from '../../../src/contract/endpoints.js';
import type { ServerVariants } from '../../../src/contract/variants.js';
import { type Random, seededRandom } from '../../../src/kernel/random.js';
import type { FaultRuleInput } from '../../../src/sandbox/faults/script.js';
import { makeTrades, type RecordedTrade } from '../exchanges/recorded.js';

/** A time at which the collecting process dies: as its nth write to the archive passes by. */
export interface Kill {
  readonly atWrite: number;
  /** Whether that write still reaches the database. */
  readonly isForwarded: boolean;
}

/** Everything that one seed decides. */
export interface OracleWorld {
  readonly seed: number;
  readonly trades: readonly RecordedTrade[];
  readonly pace: number | 'instant';
  /** Collecting may begin later than the exchange's history. */
  readonly isStartLater: boolean;
  readonly startOffsetS: number;
  /** Most trades that the exchange serves: it forgets the oldest as new ones come. */
  readonly historyMax?: number;
  readonly variants: Partial<ServerVariants>;
  readonly rules: readonly FaultRuleInput[];
  readonly kills: readonly Kill[];
  /** Streams that are waited for until nothing of them is left to do. */
  readonly kinds: ReadonlyArray<'trades' | 'candles'>;
  readonly settings: Readonly<Record<string, string>>;
}

const START_S = 1_760_000_000;

/** Faults of single replies. Small figures: what is tested is what follows, not how long it takes. */
export const REPLY_FAULTS: ReadonlyArray<(random: Random) => FaultRuleInput> = [
  (random) => ({ kind: 'latency', ms: 20, jitterMs: upTo(random, 150) }),
  (random) => ({ kind: 'status', status: pick(random, [500, 502, 503, 200]) }),
  (random) => ({ kind: 'rateLimit', retryAfterS: pick(random, [0, -5]) }),
  (random) => ({ kind: 'html', status: pick(random, [200, 502]) }),
  () => ({ kind: 'truncate' }),
  () => ({ kind: 'malformed' }),
  () => ({ kind: 'emptyBody' }),
  () => ({ kind: 'drip', bytes: 20_000, ms: 5 }),
  (random) => ({ kind: 'hang', ms: 50 + upTo(random, 200) }),
  () => ({ kind: 'reset' }),
  (random) => ({ kind: 'duplicateRows', rows: 1 + upTo(random, 30) }),
  () => ({ kind: 'reorderRows' }),
  (random) => ({ kind: 'conflictRows', rows: 1 + upTo(random, 5), place: 'behind' }),
  (random) => ({ kind: 'shortPage', keep: pick(random, [0, 1, 2, 3, 1 + upTo(random, 200)]) }),
  (random) => ({ kind: 'stuckPage', ms: 200 + upTo(random, 1500) }),
  (random) => ({ kind: 'wrongDate', form: pick(random, ['frozen', 'missing']) }),
  () => ({ kind: 'drip', part: 'head', bytes: 40, ms: 5 }),
  (random) => ({ kind: 'badRows', rows: 1 + upTo(random, 3) }),
  (random) => ({ kind: 'wrongHead', timeByS: pick(random, [0, 0, -86_400, 72_000]) }),
  (random) => ({ kind: 'wrongHead', idBy: 0, timeByS: pick(random, [-86_400, 72_000, -2, 7]) }),
  (random) => ({ kind: 'wrongDate', byS: pick(random, [60, 3600, -60, -3600]) }),
];

/** A small exchange, what goes wrong with it, and when the collector is killed. */
export function makeWorld(seed: number): OracleWorld {
  const random = seededRandom(seed);
  const seconds = 20 + upTo(random, 60);
  const flood = random() < 0.3 ? 1100 + upTo(random, 400) : upTo(random, 300);
  const trades = makeTrades({ seed, seconds, startS: START_S, flood });
  const rules = makeRules(random, REPLY_FAULTS, ['historyResult', 'historyResult', 'history']);
  const pace = random() < 0.4 ? pick(random, [20, 40] as const) : 'instant';
  const isIdMode = random() < 0.15;
  const history = random() < 0.25 ? '30s' : 'all';
  const pageCap = random() < 0.4 ? pick(random, [600, 250, 100]) : undefined;
  const world: OracleWorld = {
    seed,
    trades,
    pace,
    // A server that pages by id shows its newest page; a limited history starts where its options say.
    isStartLater: isIdMode || history !== 'all',
    startOffsetS: Math.floor(seconds * (0.2 + random() * 0.6)),
    variants: {
      rateLimit: false,
      sinceMode: isIdMode ? 'id' : 'skip',
      ...(pageCap === undefined ? {} : { pageCap }),
      ...(random() < 0.3 ? { errorShapes: 'family' as const } : {}),
    },
    rules,
    kills: Array.from({ length: pick(random, [0, 1, 1, 2]) }, () => ({
      atWrite: 1 + upTo(random, 25),
      isForwarded: random() < 0.5,
    })),
    kinds: ['trades'],
    settings: {
      TAPEKEEP_STREAMS_TRADES_HISTORY: history,
      TAPEKEEP_STREAMS_TRADES_EXACT_TIMES: String(random() < 0.7),
      TAPEKEEP_STREAMS_CANDLES_ENABLED: String(random() < 0.3),
    },
  };
  // Drawn last, so that a seed means the world that it always meant.
  if (random() >= 0.25) return world;
  return { ...world, historyMax: 100 + upTo(random, 500), isStartLater: true };
}

/** Some of `faults`, at some of `places`, each a few times. */
export function makeRules(
  random: Random,
  faults: ReadonlyArray<(random: Random) => FaultRuleInput>,
  places: readonly EndpointName[],
): FaultRuleInput[] {
  const rules: FaultRuleInput[] = [];
  const count = 1 + upTo(random, 3);
  while (rules.length < count) {
    const rule = pick(random, faults)(random);
    // Which of two rows with one id is the true one is only known while the true one comes first.
    const clash = { reorderRows: 'conflictRows', conflictRows: 'reorderRows' };
    const other = clash[rule.kind as keyof typeof clash];
    if (rules.some(({ kind }) => kind === other)) continue;
    const where = pick(random, places);
    const id = `${rule.kind}-${where}-${rules.length + 1}`;
    rules.push({
      ...rule,
      id,
      where,
      every: 1 + upTo(random, 5),
      after: upTo(random, 4),
      // One of them shows all that there is to see.
      maxCount: rule.kind === 'rateLimit' ? 1 : 1 + upTo(random, 2),
    });
  }
  return rules;
}

/** A whole number from 0 to `most`. */
export function upTo(random: Random, most: number): number {
  return Math.floor(random() * (most + 1));
}

export function pick<T>(random: Random, from: readonly T[]): T {
  const found = from[Math.floor(random() * from.length)];
  if (found === undefined) throw new Error('nothing to pick from');
  return found;
}
