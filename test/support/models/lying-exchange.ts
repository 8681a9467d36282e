import { type SourceTrade, type TradePage, toPage } from '../../../src/collect/trades/source.js';
import { type Random, seededRandom } from '../../../src/kernel/random.js';
import { placeKey } from '../../../src/model/order.js';
import type { PagedEndpoint } from '../../../src/store/index.js';
import type { FakeClock } from '../fake-clock.js';
import { lowerBound } from './by-seconds.js';

const DAY_S = 86_400;

/** What a row of an answer may be instead of the truth. */
const ROW_LIES: Readonly<Record<string, (row: SourceTrade) => SourceTrade>> = {
  'large id': (row) => moved(row, 0, 1_000_000),
  'large id, yesterday': (row) => moved(row, -DAY_S, 1_000_000),
  'large id, 20 h ahead': (row) => moved(row, 20 * 3600, 1_000_000),
  yesterday: (row) => moved(row, -DAY_S, 0),
  '20 h ahead': (row) => moved(row, 20 * 3600, 0),
  'a minute early': (row) => moved(row, -60, 0),
  'seconds early': (row) => moved(row, -2, 0),
  'seconds ahead': (row) => moved(row, 7, 0),
};
const ROW_LIE_NAMES = Object.keys(ROW_LIES);

function moved(row: SourceTrade, byS: number, idBy: number): SourceTrade {
  const tradedAtS = row.tradedAtS + byS;
  const executedAtUs = row.executedAtUs === null ? null : row.executedAtUs + byS * 1_000_000;
  return { ...row, tid: row.tid + idBy, tradedAtS, executedAtUs };
}

/** Which row of an answer lies: its first, of the newest page or a deeper one, or its last. */
type Place = 'head' | 'first' | 'last';

export interface LyingTraits {
  readonly seed: number;
  readonly mode: 'skip' | 'id';
  /** Trades a second, on average. */
  readonly rate: number;
  /** Rows of a page at most. */
  readonly cap: number;
  /** Share of answers of which one row lies, by its place. */
  readonly rowLies: Readonly<Record<Place, number>>;
  /** Share of answers with a wrong Date, and by how much. */
  readonly dateLies: number;
  readonly dateByMs: number;
  /** A cache keeps pages of so long ago under a fresh Date, of one endpoint or both; 0: none. */
  readonly staleMs: number;
  readonly isStaleBoth: boolean;
}

/** A lie in an answer. */
export interface ToldLie {
  readonly endpoint: PagedEndpoint;
  readonly name: string;
  readonly truth: SourceTrade;
  readonly lie: SourceTrade;
  readonly place: Place;
}

/** Number of each lie in all worlds of this process. */
export const toldLies = new Map<string, number>();

const note = (name: string) => toldLies.set(name, (toldLies.get(name) ?? 0) + 1);

/**
 * An exchange of one market that knows all it ever did, and may lie in single answers: about a row,
 * about the time, and by pages of long ago. Its time is the clock's.
 */
export class LyingExchange {
  /** Oldest first. */
  readonly issued: SourceTrade[] = [];
  /** Whether trades happen. */
  isOpen = true;
  isLying = false;
  isStale = false;
  /** The row lies of the answers since this was emptied. */
  told: ToldLie[] = [];
  readonly #toldOnce = new Set<string>();
  readonly #traits: LyingTraits;
  readonly #clock: FakeClock;
  readonly #random: Random;
  #nextTid = 5_000_000;
  #throughMs: number;

  constructor(traits: LyingTraits, clock: FakeClock) {
    this.#traits = traits;
    this.#clock = clock;
    this.#random = seededRandom(traits.seed);
    this.#throughMs = clock.wallMs();
  }

  /** Ids start anew with the next trade. */
  beginIdsAnew(): void {
    this.#nextTid = 1 + Math.floor(this.#random() * 1000);
    note('ids begun anew');
  }

  /** Lets trades happen up to now. */
  trade(): void {
    const { rate } = this.#traits;
    while (this.#throughMs < this.#clock.wallMs()) {
      this.#throughMs += 1000;
      if (!this.isOpen) continue;
      const burst = this.#random() < 0.02 ? 10 : 1;
      const count = Math.floor(rate * burst * 2 * this.#random() + this.#random());
      const tradedAtS = this.#throughMs / 1000 - 1;
      for (let one = 0; one < count; one += 1) {
        this.#nextTid += 1 + Math.floor(this.#random() * 3);
        const executedAtUs = tradedAtS * 1_000_000 + Math.floor(((one + 0.5) / count) * 1_000_000);
        const price = `${1 + (this.#nextTid % 7)}`;
        const fields = { price, amount: '1', total: price, side: 'buy' } as const;
        this.issued.push({ tid: this.#nextTid, tradedAtS, executedAtUs, ...fields });
      }
    }
  }

  get figures(): { last: string; volume: string; deal: string } {
    const last = this.issued.at(-1)?.price ?? '0';
    return { last, volume: String(this.issued.length), deal: String(this.issued.length) };
  }

  /** One answer about history. */
  page(endpoint: PagedEndpoint, offset: number, limit: number, nowMs: number): TradePage {
    const { mode, cap, staleMs, isStaleBoth } = this.#traits;
    const isStale = this.isStale && (isStaleBoth || endpoint === 'historyResult');
    if (isStale) note('stale page');
    const visible = isStale
      ? lowerBound(this.issued, (this.#clock.wallMs() - staleMs) / 1000)
      : this.issued.length;
    const end = Math.max(0, visible - (mode === 'skip' ? offset : 0));
    const rows = this.issued
      .slice(Math.max(0, end - Math.min(limit, cap)), end)
      .map((row) => (endpoint === 'history' ? row : { ...row, executedAtUs: null }))
      .reverse();
    if (this.isLying) this.#lie(endpoint, rows, mode === 'skip' && offset > 0);
    const times = { sentAtMs: nowMs, dateMs: this.dateMs(), receivedAtMs: nowMs };
    return toPage({ data: rows, rejected: [], ...times }, (row) => row);
  }

  /** The Date of an answer. */
  dateMs(): number {
    const { dateLies, dateByMs } = this.#traits;
    const isWrong = this.isLying && this.#random() < dateLies;
    if (isWrong) note('wrong Date');
    return Math.floor((this.#clock.wallMs() + (isWrong ? dateByMs : 0)) / 1000) * 1000;
  }

  #lie(endpoint: PagedEndpoint, rows: SourceTrade[], isDeep: boolean): void {
    const { rowLies } = this.#traits;
    const place: Place = this.#random() < 0.3 ? 'last' : isDeep ? 'first' : 'head';
    if (this.#random() >= rowLies[place]) return;
    const at = place === 'last' ? rows.length - 1 : 0;
    const truth = rows[at];
    const name = ROW_LIE_NAMES[Math.floor(this.#random() * ROW_LIE_NAMES.length)] ?? '';
    const lie = truth && ROW_LIES[name]?.(truth);
    if (truth === undefined || lie === undefined) return;
    // Twice the same is no slip of one answer.
    const key = `${endpoint} ${placeKey(lie)}`;
    if (this.#toldOnce.has(key)) return;
    this.#toldOnce.add(key);
    rows[at] = lie;
    this.told.push({ endpoint, name, truth, lie, place });
    note(`${place}: ${name}`);
  }
}
