import assert from 'node:assert/strict';
import { loadavg } from 'node:os';
import { parseArgs } from 'node:util';
import { sleep, systemClock } from '../../src/kernel/clock.js';
import {
  runSql,
  startTestPostgres,
  TEMPLATE,
  withDatabase,
} from '../support/postgres/postgres-server.js';
import { Program } from '../support/programs/program.js';
import { BURST, RATE_PER_S, StandbyWorld } from '../support/worlds/standby-world.js';
import { type BenchReport, tableOf } from './report.js';

export const about =
  'a standby takes over from a holder that is killed, frozen or hands over (--kills N, --freezes N, --handovers N, --starts N of two at once; build first)';

/*
 * Daemons of one archive, of which one holds it, beside the sandbox's exchange. They live on from round to round:
 * the one that took over is the holder of the next round. Times count from the signal, or from the start of the command
 * that hands over. A gap is the longest of all markets. In the end the archive is held against what the exchange issued.
 */

/** Bars that must hold, milliseconds. */
const BARS = { killed: 8_000, frozen: 10_000, row: 12_000 };
const LOOK_EVERY_MS = 50;
/** Nothing takes longer than this; a round that does is a failure. */
const LIMIT_MS = 120_000;
const GAP_KINDS = ['states', 'depth', 'tickers'] as const;
type GapKind = (typeof GAP_KINDS)[number];

/** Figures of one round, milliseconds. */
interface Round extends Record<GapKind, number> {
  readonly lock: number;
  readonly row: number;
}

/** Asks until it is so. */
async function until(what: string, isTrue: () => Promise<boolean> | boolean): Promise<void> {
  const endMs = systemClock.monotonicMs() + LIMIT_MS;
  while (!(await isTrue())) {
    if (systemClock.monotonicMs() > endMs) throw new Error(`not within two minutes: ${what}`);
    await sleep(systemClock, LOOK_EVERY_MS);
  }
}

/** A daemon, and when it took the archive and stood by. */
class Member {
  readonly daemon: Program;
  taken = 0;
  takenMs = 0;
  stoodBy = 0;
  isFrozen = false;

  constructor(daemon: Program) {
    this.daemon = daemon;
    daemon.onLine((line) => {
      if (line.includes('archive taken')) {
        this.taken += 1;
        this.takenMs = Date.now();
      }
      if (line.includes('standing by; another')) this.stoodBy += 1;
    });
  }
}

/** Daemons of one archive, whose roles change from round to round. */
class Crew {
  readonly #world: StandbyWorld;
  readonly #markets: string;
  readonly #members = new Set<Member>();
  readonly #waking = new Set<Promise<void>>();
  #holder: Member | undefined;
  /** How long each that woke up took to stand by. */
  readonly wokenMs: number[] = [];
  /** Real-time connections of each. */
  #connections = 0;

  constructor(world: StandbyWorld, markets: string) {
    this.#world = world;
    this.#markets = markets;
  }

  get holder(): Member {
    return this.#holder ?? assert.fail('no daemon holds the archive');
  }

  start(): Member {
    const member = new Member(this.#world.start({ TAPEKEEP_MARKETS: this.#markets }, 'info'));
    this.#members.add(member);
    return member;
  }

  /** Starts daemons that are missing; resolves when one holds, knows of another, and both receive what is pushed. */
  async fill(size: number): Promise<void> {
    if (this.#holder === undefined) {
      const first = this.start();
      await until('a first holder', () => first.taken > 0);
      this.#holder = first;
      for (const kind of GAP_KINDS) {
        await until(`covered ${kind}`, () => this.#world.isCoveredAfter(kind, 0));
      }
      this.#connections = this.#world.connections;
    }
    while (this.#members.size < size) this.start();
    const page = await this.holder.daemon.page();
    await until('a standby that the holder knows of', async () => {
      const text = await (await fetch(`${page}/metrics`)).text();
      return /^tapekeep_standbys [1-9]/m.test(text);
    });
    const awake = [...this.#members].filter(({ isFrozen }) => !isFrozen).length;
    await until('connections of all', () => {
      return this.#world.connections >= awake * this.#connections;
    });
    const openedMs = Date.now();
    await until('a push to all', () => this.#world.isCoveredAfter('states', openedMs));
  }

  /** Waits until another one holds the archive, and stores. */
  async change(fromMs: number): Promise<Round> {
    const before = this.#holder;
    await until('another holder', () => this.#findHolder(fromMs) !== undefined).catch((error) => {
      const dumps = [...this.#members].map(({ daemon }) => `${daemon.pid}:\n${daemon.dump()}`);
      throw new Error([...dumps, ''].join('\n'), { cause: error });
    });
    const holder = this.#findHolder(fromMs) ?? assert.fail();
    assert.notEqual(holder, before);
    this.#holder = holder;
    // A quiet market has no new trade: then the time in which none was made is covered.
    await until('trades', async () => {
      return (
        (await this.#world.hasTradesAfter(holder.takenMs)) ||
        (await this.#world.isCoveredAfter('trades', holder.takenMs))
      );
    });
    const rowMs = Date.now();
    if (rowMs - fromMs > BARS.row) process.stderr.write(`a late row:\n${holder.daemon.dump()}\n`);
    const gaps: Partial<Record<GapKind, number>> = {};
    for (const kind of GAP_KINDS) {
      await until(`covered ${kind}`, () => this.#world.isCoveredAfter(kind, rowMs));
      gaps[kind] = await this.#world.gapMs(kind, fromMs);
    }
    const { states = 0, depth = 0, tickers = 0 } = gaps;
    return { lock: holder.takenMs - fromMs, row: rowMs - fromMs, states, depth, tickers };
  }

  #findHolder(sinceMs: number): Member | undefined {
    return [...this.#members].find(({ takenMs }) => takenMs > sinceMs);
  }

  async kill(): Promise<Round> {
    const { holder } = this;
    const fromMs = Date.now();
    holder.daemon.kill('SIGKILL');
    this.#members.delete(holder);
    return await this.change(fromMs);
  }

  /** The frozen one wakes while later rounds go on, and must stand by then. */
  async freeze(frozenMs: number): Promise<Round> {
    const { holder } = this;
    const { stoodBy } = holder;
    const fromMs = Date.now();
    holder.daemon.kill('SIGSTOP');
    holder.isFrozen = true;
    const wake = async () => {
      await sleep(systemClock, frozenMs);
      const wokenMs = Date.now();
      holder.daemon.kill('SIGCONT');
      await until('one that woke up stands by', () => holder.stoodBy > stoodBy);
      this.wokenMs.push(Date.now() - wokenMs);
      holder.isFrozen = false;
    };
    const waking = wake().finally(() => this.#waking.delete(waking));
    waking.catch(() => undefined);
    this.#waking.add(waking);
    const round = await this.change(fromMs);
    await until('one that is awake', () => [...this.#members].some((one) => this.#isReady(one)));
    return round;
  }

  #isReady(member: Member): boolean {
    return member !== this.#holder && !member.isFrozen && member.stoodBy > 0;
  }

  async awake(): Promise<void> {
    await Promise.all(this.#waking);
  }

  async handOver(databaseUrl: string): Promise<Round> {
    const fromMs = Date.now();
    const asking = new Program(['handover'], { env: { TAPEKEEP_DATABASE_URL: databaseUrl } });
    const round = await this.change(fromMs);
    assert.equal((await asking.ended()).code, 0, asking.dump());
    return round;
  }

  /** Ends all daemons at once. */
  async end(): Promise<void> {
    for (const { daemon } of this.#members) {
      daemon.kill('SIGKILL');
      await daemon.ended();
    }
    this.#members.clear();
    this.#holder = undefined;
  }

  /** Starts two at one instant; exactly one may hold the archive. */
  async startBoth(): Promise<Round> {
    await this.end();
    const fromMs = Date.now();
    const both = [this.start(), this.start()];
    const round = await this.change(fromMs);
    await until('the other stands by', () => both.some((one) => one.stoodBy > 0));
    assert.deepEqual(both.map(({ taken }) => taken).toSorted(), [0, 1]);
    return round;
  }
}

const SCENARIOS = ['killed', 'frozen', 'handed over', 'started together'] as const;
type Scenario = (typeof SCENARIOS)[number];

interface Outcome {
  readonly rounds: readonly Round[];
  readonly mostAtOnce: number;
}

/** The value that so many of a hundred do not exceed. */
function percentile(values: readonly number[], share: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.max(0, Math.ceil(share * sorted.length) - 1)] ?? Number.NaN;
}

const seconds = (ms: number) => (Math.round(ms / 10) / 100).toFixed(2);
const FIGURES = ['lock', 'row', ...GAP_KINDS] as const;

function figuresOf(rounds: readonly Round[]) {
  return Object.fromEntries(
    FIGURES.map((figure) => {
      const values = rounds.map((round) => round[figure]);
      const [p50, p99] = [percentile(values, 0.5), percentile(values, 0.99)].map(Math.round);
      return [figure, { p50, p99, max: Math.round(Math.max(...values)) }];
    }),
  );
}

/** @param options how many rounds of each; `--members` of the crew, of which one wakes while others take over; `--frozen-s`, `--markets` */
export async function run(options: readonly string[]): Promise<BenchReport> {
  const { values } = parseArgs({
    args: [...options],
    options: {
      kills: { type: 'string', default: '3' },
      freezes: { type: 'string', default: '2' },
      handovers: { type: 'string', default: '2' },
      starts: { type: 'string', default: '2' },
      members: { type: 'string', default: '2' },
      'frozen-s': { type: 'string', default: '20' },
      // Quiet markets show little, and cost half a minute a round.
      markets: { type: 'string', default: 'BTC_USDT' },
    },
  });
  const frozenMs = Number(values['frozen-s']) * 1000;
  const size = Number(values.members);
  const loads = [loadavg()[0]];
  const ends: Array<() => Promise<void>> = [];
  const server = await startTestPostgres();
  try {
    await runSql(server.url, `CREATE DATABASE bench_takeover TEMPLATE ${TEMPLATE}`);
    const databaseUrl = withDatabase(server.url, 'bench_takeover');
    const owner = { after: (end: () => Promise<void>) => void ends.push(end) };
    const world = await StandbyWorld.open(owner, databaseUrl);
    const crew = new Crew(world, values.markets);
    await crew.fill(size);
    const outcomes: Partial<Record<Scenario, Outcome>> = {};
    const play = async (name: Scenario, count: number, round: () => Promise<Round>) => {
      const from = world.requests;
      const rounds: Round[] = [];
      while (rounds.length < count) {
        if (name !== 'started together') await crew.fill(size);
        rounds.push(await round());
        process.stderr.write(`${name} ${rounds.length}: ${JSON.stringify(rounds.at(-1))}\n`);
      }
      await crew.awake();
      if (count > 0) outcomes[name] = { rounds, mostAtOnce: world.mostAtOnce(from) };
    };
    await play('killed', Number(values.kills), () => crew.kill());
    await play('frozen', Number(values.freezes), () => crew.freeze(frozenMs));
    await play('handed over', Number(values.handovers), () => crew.handOver(databaseUrl));
    await play('started together', Number(values.starts), () => crew.startBoth());
    const nowMs = Date.now();
    await until('all trades', () => world.isWhole(nowMs));
    const claims = await world.judge(crew.holder.daemon);
    loads.push(loadavg()[0]);
    return report(outcomes, { claims, loads, wokenMs: crew.wokenMs });
  } finally {
    for (const end of ends) await end();
    await server.stop();
  }
}

/** Figures of the whole run. */
interface Beside {
  readonly claims: Awaited<ReturnType<StandbyWorld['judge']>>;
  /** Load of the machine, before and after. */
  readonly loads: readonly (number | undefined)[];
  readonly wokenMs: readonly number[];
}

function report(
  outcomes: Partial<Record<Scenario, Outcome>>,
  { claims, loads, wokenMs }: Beside,
): BenchReport {
  const played = SCENARIOS.flatMap((name) => {
    const outcome = outcomes[name];
    return outcome === undefined ? [] : [{ name, ...outcome, figures: figuresOf(outcome.rounds) }];
  });
  const rows = played.flatMap(({ name, rounds, mostAtOnce, figures }) =>
    (['p50', 'p99', 'max'] as const).map((of) => [
      of === 'p50' ? `${name} (${rounds.length})` : '',
      of,
      ...FIGURES.map((figure) => seconds(figures[figure]?.[of] ?? Number.NaN)),
      of === 'p50' ? mostAtOnce.toFixed(1) : '',
    ]),
  );
  const figuresBy = Object.fromEntries(
    played.map(({ name, rounds, mostAtOnce, figures }) => [
      name,
      { rounds: rounds.length, mostAtOnce: Math.round(mostAtOnce * 10) / 10, ...figures },
    ]),
  );
  const barOf = (name: Scenario, figure: 'lock' | 'row', barMs: number) => {
    const max = played.find((one) => one.name === name)?.figures[figure]?.max;
    return max === undefined ? [] : [[`${name} ${figure}`, Math.round((100 * barMs) / max) / 100]];
  };
  const ratio = Object.fromEntries([
    ...barOf('killed', 'lock', BARS.killed),
    ...barOf('killed', 'row', BARS.row),
    ...barOf('frozen', 'lock', BARS.frozen),
    ...barOf('frozen', 'row', BARS.row),
  ]) as Record<string, number>;
  const { issued, proven, missing, lies } = claims;
  return {
    table: [
      tableOf([
        ['seconds', '', 'lock', 'first row', ...GAP_KINDS.map((kind) => `gap ${kind}`), 'at once'],
        ...rows,
      ]),
      `at once: requests beyond ${RATE_PER_S} a second, of all daemons together; ${BURST} are allowed.`,
      `A frozen one that woke up stood by after ${seconds(Math.max(0, ...wokenMs))} s at most.`,
      `${proven} trades proven of ${issued} issued; ${missing} before the history; false claims, repetitions and others: ${JSON.stringify(lies)}.`,
    ].join('\n'),
    figures: {
      ratio,
      ...figuresBy,
      ...{ limit: { ratePerS: RATE_PER_S, burst: BURST }, claims, load: loads, wokenMs },
    },
  };
}
