import type { EndpointName } from '../../contract/endpoints.js';
import { SECOND_US } from '../../kernel/durations.js';
import type { Random } from '../../kernel/random.js';
import { DEFECTS, type Defect } from './kinds.js';
import { drawBelow } from './rule-state.js';
import type { FaultRule } from './script.js';

type Row = Record<string | number, unknown>;

/** Source of rows: a reply, or a frame that pushes trades. */
export type RowsPlace = EndpointName | 'trades.update';

/** Place of the rows in a reply or frame, and names of their fields. */
interface RowShape {
  /** Path from the document to the list, or to the map of rows. */
  readonly path: readonly string[];
  /** Inside a row, the object that carries the fields. */
  readonly within?: string;
  readonly id?: string;
  readonly time?: string;
  readonly price?: string | number;
  readonly amount?: string | number;
}

/** The fields of trades and of orders that have one name in both. */
const FIGURES = { price: 'price', amount: 'amount' } as const;
const TRADE = { id: 'id', time: 'time', ...FIGURES } as const;
const ORDER = { id: 'id', time: 'timestamp', ...FIGURES } as const;

const SHAPES: Readonly<Partial<Record<RowsPlace, RowShape>>> = {
  markets: { path: ['result'] },
  products: { path: ['result'] },
  tickers: { path: ['result'], within: 'ticker', price: 'last', amount: 'vol' },
  kline: { path: ['result', 'kline'], time: 'time', price: 'close', amount: 'volume' },
  history: { path: ['result'], ...TRADE },
  'trades.update': { path: ['params', '1'], ...TRADE },
  historyResult: { path: [], id: 'tid', time: 'date', ...FIGURES },
  depth: { path: ['asks'], price: 0, amount: 1 },
  book: { path: ['result', 'orders'], ...ORDER },
  orders: { path: ['result', 'result'], ...ORDER },
};

const SECONDS_PER_DAY = 86_400;
const LONG_NUMBER_DIGITS = 10_000;

/** Effects of the defects on fields. A row without that field cannot have the defect. */
const SPOILERS: Readonly<
  Record<Defect, { field: 'id' | 'time' | 'price' | 'amount'; spoil: (value: unknown) => unknown }>
> = {
  notANumber: { field: 'price', spoil: () => 'NaN' },
  otherType: { field: 'amount', spoil: (value) => [value] },
  overflow: { field: 'amount', spoil: () => '1e999' },
  longNumber: { field: 'price', spoil: () => '9'.repeat(LONG_NUMBER_DIGITS) },
  negativeAmount: { field: 'amount', spoil: (value) => `-${String(value)}` },
  hugeId: { field: 'id', spoil: (value) => 2 ** 53 + Number(value) * 2 },
  year1970: { field: 'time', spoil: (value) => Number(value) % SECONDS_PER_DAY },
  microseconds: { field: 'time', spoil: (value) => Math.round(Number(value) * SECOND_US) },
};

/** Positions of `count` different rows out of `length`, ascending. */
function drawPositions(random: Random, length: number, count: number): number[] {
  const positions = Array.from({ length }, (_, at) => at);
  for (let at = 0; at < Math.min(count, length); at += 1) {
    const other = at + drawBelow(random, length - at);
    const moved = positions[other] ?? 0;
    positions[other] = positions[at] ?? 0;
    positions[at] = moved;
  }
  return positions.slice(0, count).sort((left, right) => left - right);
}

/** Another figure of the same form: its last digit is counted on by one. */
function otherFigure(value: unknown): string {
  return String(value).replace(/\d(?=\D*$)/, (digit) => String((Number(digit) + 1) % 10 || 1));
}

/** Shuffles in place so that at least the first row stands elsewhere. */
function shuffle(random: Random, rows: unknown[]): void {
  for (let at = rows.length - 1; at > 0; at -= 1) {
    // Sattolo's way: every row leaves its place, so the order is never the old one.
    const other = drawBelow(random, at);
    const moved = rows[at];
    rows[at] = rows[other];
    rows[other] = moved;
  }
}

/** The rows of one successful reply or of one frame, to be spoilt in place. */
export class ReplyRows {
  readonly #document: unknown;
  readonly #shape: RowShape;
  /** The list itself; undefined where rows are the values of a map. */
  readonly #list: unknown[] | undefined;
  readonly #rows: Row[];

  private constructor(document: unknown, shape: RowShape, holder: object) {
    this.#document = document;
    this.#shape = shape;
    this.#list = Array.isArray(holder) ? holder : undefined;
    this.#rows = Object.values(holder) as Row[];
  }

  /** The rows of a text in which a rule's fault can befall some; else undefined. */
  static forRule(rule: FaultRule, place: RowsPlace, text: string): ReplyRows | undefined {
    const rows = ReplyRows.read(place, text);
    return rows?.allows(rule) === true ? rows : undefined;
  }

  /** The rows of a body, or undefined when this endpoint or this reply has none. */
  static read(place: RowsPlace, body: string): ReplyRows | undefined {
    const shape = SHAPES[place];
    if (shape === undefined) return undefined;
    const document: unknown = JSON.parse(body);
    let holder: unknown = document;
    for (const name of shape.path) holder = (holder as Row | undefined)?.[name];
    if (holder === null || typeof holder !== 'object') return undefined;
    return new ReplyRows(document, shape, holder);
  }

  /** Returns true if the fault of a rule can befall these rows. */
  allows(rule: FaultRule): boolean {
    const count = this.#rows.length;
    switch (rule.kind) {
      case 'duplicateRows':
        return this.#list !== undefined && count >= 1;
      case 'reorderRows':
        return this.#list !== undefined && count >= 2;
      case 'missingRows':
        return this.#list !== undefined && count >= 3;
      case 'shortPage':
        return this.#list !== undefined && count > (rule.keep ?? 0);
      case 'conflictRows':
        return this.#list !== undefined && count >= 1 && this.#shape.amount !== undefined;
      case 'wrongHead':
        return count >= 1;
      case 'idsAnew':
        return this.#rows.some((row) => this.#idOf(row) > (rule.above ?? 0));
      case 'badRows':
        return count >= 1 && this.#defects(rule).length > 0;
      default:
        return false;
    }
  }

  /** Does what the rule says and returns the body that results. */
  spoil(rule: FaultRule, random: Random): string {
    const chosen = drawPositions(random, this.#rows.length, rule.rows ?? 1);
    if (rule.kind === 'reorderRows') shuffle(random, this.#list ?? []);
    else if (rule.kind === 'shortPage') this.#cut(rule, random);
    else if (rule.kind === 'missingRows') this.#leaveOut(rule, random);
    else if (rule.kind === 'wrongHead') this.#misplaceHead(rule);
    else if (rule.kind === 'idsAnew') this.#countAnew(rule);
    else if (rule.kind === 'badRows') this.#spoilFields(rule, random, chosen);
    else this.#repeat(rule, chosen);
    return JSON.stringify(this.#document);
  }

  #defects({ defect }: FaultRule): Defect[] {
    return DEFECTS.filter((name) => {
      const isWanted = defect === 'any' || defect === name;
      return isWanted && this.#shape[SPOILERS[name].field] !== undefined;
    });
  }

  #spoilFields(rule: FaultRule, random: Random, chosen: readonly number[]): void {
    const defects = this.#defects(rule);
    for (const at of chosen) {
      const defect = defects[drawBelow(random, defects.length)];
      const row = this.#fieldsOf(this.#rows[at]);
      if (defect === undefined || row === undefined) continue;
      const { field, spoil } = SPOILERS[defect];
      const name = this.#shape[field];
      if (name !== undefined) row[name] = spoil(row[name]);
    }
  }

  #idOf(row: Row): number {
    return Number(row[this.#shape.id ?? '']);
  }

  #misplaceHead({ idBy = 0, timeByS = 0 }: FaultRule): void {
    const { id = '', time = '' } = this.#shape;
    const [head] = this.#rows;
    if (head === undefined) return;
    head[id] = this.#idOf(head) + idBy;
    head[time] = Number(head[time]) + timeByS;
  }

  #countAnew({ above = 0 }: FaultRule): void {
    for (const row of this.#rows) {
      if (this.#idOf(row) > above) row[this.#shape.id ?? ''] = this.#idOf(row) - above;
    }
  }

  #fieldsOf(row: Row | undefined): Row | undefined {
    const { within } = this.#shape;
    return within === undefined ? row : (row?.[within] as Row | undefined);
  }

  #cut({ keep }: FaultRule, random: Random): void {
    this.#list?.splice(keep ?? drawBelow(random, this.#rows.length));
  }

  #leaveOut({ rows = 1 }: FaultRule, random: Random): void {
    const inner = drawPositions(random, this.#rows.length - 2, rows);
    for (const at of [...inner].reverse()) this.#list?.splice(at + 1, 1);
  }

  /**
   * Puts a second copy behind each chosen row, or one with other figures there or in its place. From
   * the end, so that positions stay true.
   */
  #repeat({ kind, place }: FaultRule, chosen: readonly number[]): void {
    const amount = kind === 'conflictRows' ? this.#shape.amount : undefined;
    for (const at of [...chosen].reverse()) {
      const row = this.#rows[at];
      const copy = amount === undefined ? row : { ...row, [amount]: otherFigure(row?.[amount]) };
      if (place === 'instead') this.#list?.splice(at, 1, copy);
      else this.#list?.splice(at + 1, 0, copy);
    }
  }
}
