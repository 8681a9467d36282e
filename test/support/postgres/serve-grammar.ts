import { type Random, seededRandom } from '../../../src/kernel/random.js';

/** Random statements over trades, from the operators and functions that the endpoint answers. */
export class Grammar {
  readonly #random: Random;

  constructor(seed: number) {
    this.#random = seededRandom(seed);
  }

  #pick<T>(...all: readonly [T, ...T[]]): T {
    return all[Math.floor(this.#random() * all.length)] ?? all[0];
  }

  /** One of some parts; only the first ones, which end the depth, when there is none left. */
  #grow(depth: number, ends: readonly string[], ...parts: readonly (() => string)[]): string {
    const [first = '', ...more] = ends;
    if (depth <= 0 || parts.length === 0 || this.#random() < 0.3) return this.#pick(first, ...more);
    return parts[Math.floor(this.#random() * parts.length)]?.() ?? first;
  }

  #constant(): string {
    const digits = Math.floor(this.#random() * 5);
    const number = ((this.#random() - 0.2) * 10 ** Math.floor(this.#random() * 6)).toFixed(digits);
    return number.startsWith('-') ? `(${number})` : number;
  }

  #number(depth: number): string {
    const one = () => this.#number(depth - 1);
    return this.#grow(
      depth,
      ['price', 'amount', 'total', this.#constant(), 'tid::numeric'],
      () => `(${one()} ${this.#pick('+', '-', '*')} ${one()})`,
      () => `(- ${one()})`,
      () => `${this.#pick('abs', 'ceil', 'floor', 'trunc', 'sign', 'round')}(${one()})`,
      () => `round(${one()}, ${this.#pick('-2', '0', '1', '3', '12')})`,
      () => `(${one()})::numeric(${this.#pick('30,3', '38,0', '20,10', '6,2')})`,
      () => `(CASE WHEN ${this.condition(depth - 1)} THEN ${one()} ELSE ${one()} END)`,
      () => `(CASE market_id WHEN 1 THEN ${one()} WHEN 2 THEN ${one()} END)`,
    );
  }

  #whole(depth: number): string {
    const one = () => this.#whole(depth - 1);
    return this.#grow(
      depth,
      ['tid', 'market_id', String(Math.floor(this.#random() * 5000))],
      () => `(${one()} ${this.#pick('+', '-', '*')} ${one()})`,
      () => `(${one()} ${this.#pick('/', '%')} ${this.#pick('2', '7', '(-3)', '1000')})`,
      () => `abs(${one()})`,
      () => `(${this.#number(depth - 1)})::${this.#pick('bigint', 'int')}`,
    );
  }

  #time(): string {
    const minute = String(Math.floor(this.#random() * 60)).padStart(2, '0');
    const constant = `timestamptz '2026-01-13 ${this.#pick('00', '11', '23')}:${minute}${this.#pick('Z', '+01', '-00:30')}'`;
    const width = this.#pick('1 hour', '7 minutes', '1 day', '00:00:00.5');
    const binned = `date_bin('${width}', ${this.#pick('traded_at', 'received_at')}, ${constant})`;
    return this.#pick('traded_at', 'executed_at', 'received_at', constant, binned);
  }

  #compared(): string {
    return this.#pick('=', '<>', '<', '<=', '>', '>=');
  }

  condition(depth: number): string {
    const one = () => this.condition(depth - 1);
    const op = this.#compared();
    const [number, whole] = [() => this.#number(depth - 1), () => this.#whole(depth - 1)];
    return this.#grow(
      depth,
      [`tid ${op} ${this.#constant()}`, `price ${op} ${this.#constant()}`, 'executed_at IS NULL'],
      () => `(${one()} ${this.#pick('AND', 'OR')} ${one()})`,
      () => `(NOT ${one()})`,
      () => `(${number()} ${op} ${number()})`,
      () => `(${whole()} ${op} ${whole()})`,
      () => `(${whole()} ${op} ${number()})`,
      () => `(${this.#time()} ${op} ${this.#time()})`,
      () =>
        `((${this.#pick('received_at', 'executed_at')} - traded_at) ${op} '${this.#pick('1 hour', '2 days', '00:00:00.5', '1 mon')}'::interval)`,
      () => `(${number()} IS ${this.#pick('', 'NOT ')}NULL)`,
      () => `(${this.#time()} IS ${this.#pick('', 'NOT ')}DISTINCT FROM ${this.#time()})`,
      () => `(${number()} IS ${this.#pick('', 'NOT ')}DISTINCT FROM ${number()})`,
      () =>
        `(${this.#pick(number, whole)()} ${this.#pick('IN', 'NOT IN')} (${this.#constant()}, 2, 101, 1250.5))`,
      () => `((${number()})::float8 ${op} ${this.#constant()})`,
      () => `(amount::float8 ${op} total::float8)`,
    );
  }

  statement(): string {
    const where = `WHERE ${this.condition(3)}`;
    const sums = [
      'count(*)',
      `sum(${this.#number(2)})`,
      `sum(${this.#whole(1)})`,
      `avg(${this.#number(1)})`,
      `sum(${this.#number(1)}) / sum(${this.#number(1)})`,
      `round(sum(${this.#number(1)}) / count(*), 3)`,
      `count(*) FILTER (WHERE ${this.condition(1)})`,
      `max(${this.#pick('price', 'tid', 'executed_at', 'received_at - traded_at', 'round(price, 1)')})`,
    ].filter(() => this.#random() < 0.5);
    const counted = ['count(executed_at)', ...sums].join(', ');
    return this.#pick(
      () => `SELECT * FROM @trade ${where} ORDER BY traded_at, tid`,
      () =>
        `SELECT tid, price FROM @trade ${where} ORDER BY ${this.#number(2)} ${this.#pick('', 'DESC', 'NULLS FIRST')}, tid LIMIT 30`,
      () => `SELECT ${counted} FROM @trade ${where}`,
      () =>
        `SELECT market_id, ${counted} FROM @trade ${where} GROUP BY market_id ORDER BY market_id`,
      () =>
        `SELECT ${this.#whole(2)} AS n, ${counted} FROM @trade ${where} GROUP BY 1 ORDER BY 1 LIMIT 50`,
    )();
  }
}
