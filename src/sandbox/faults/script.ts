import type { EndpointName } from '../../contract/endpoints.js';
import { type FaultKind, faultKinds, type ParameterShape, shapeOf } from './kinds.js';
import { FaultScriptError } from './script-error.js';

/** Where a rule applies: everywhere that its kind can, at one endpoint, or in real time only. */
export type FaultPlace = '*' | 'realtime' | EndpointName;

/** The parameters of all kinds; each kind has its own of them, see `FAULT_KINDS`. */
export interface FaultParameters {
  readonly ms?: number;
  readonly jitterMs?: number;
  readonly status?: number;
  readonly retryAfterS?: number;
  readonly retryAfterForm?: string;
  readonly bytes?: number;
  readonly oldDate?: boolean;
  readonly cacheTime?: boolean;
  readonly rows?: number;
  readonly defect?: string;
  readonly at?: string;
  readonly answers?: string;
  readonly copies?: number;
  readonly form?: string;
  readonly keep?: number;
  readonly place?: string;
  readonly idBy?: number;
  readonly timeByS?: number;
  readonly above?: number;
  readonly part?: string;
  readonly byS?: number;
}

/** One rule as it is written. Without conditions it fires at every opportunity. */
export interface FaultRuleInput extends FaultParameters {
  readonly kind: FaultKind;
  /** Default: `rule-` and its number. Reports name it, and its luck depends on it. */
  readonly id?: string;
  readonly where?: FaultPlace;
  /** Only requests and frames about this market. */
  readonly market?: string;
  /** Chance at each opportunity, 0 to 1. */
  readonly probability?: number;
  /** Opportunities that pass before the first that counts. */
  readonly after?: number;
  /** Only every nth opportunity. */
  readonly every?: number;
  /** Only from, or before, this time of the exchange: UTC text. */
  readonly from?: string;
  readonly to?: string;
  /** Only within so many seconds after the script took effect, by this machine's clock. */
  readonly firstS?: number;
  /** Fires this often at most. */
  readonly maxCount?: number;
}

/** One rule, checked, with every default filled in. */
export interface FaultRule extends FaultParameters {
  readonly id: string;
  readonly kind: FaultKind;
  readonly where: FaultPlace;
  readonly market: string | undefined;
  readonly probability: number;
  readonly after: number;
  readonly every: number;
  readonly fromMs: number;
  readonly toMs: number;
  readonly firstMs: number;
  readonly maxCount: number;
  /** The rule as it was written. */
  readonly written: object;
}

export interface FaultScript {
  readonly seed: number | undefined;
  readonly rules: readonly FaultRule[];
}

const MAX_RULES = 100;
const MAX_COUNT = 1_000_000_000;
const TIME_PATTERN = /^\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d{1,3})?)?Z$/;

/** One setting that is being read, with what its refusal says. */
interface Setting {
  readonly rule: string;
  readonly key: string;
  readonly value: unknown;
}

function show(value: unknown): string {
  const text = JSON.stringify(value) ?? String(value);
  return text.length > 80 ? `${text.slice(0, 80)}…` : text;
}

function refuse({ rule, key, value }: Setting, allowed: string): FaultScriptError {
  return new FaultScriptError(`${rule}: ${key} ${show(value)} is not allowed; expected ${allowed}`);
}

function readWhole(setting: Setting, min: number, max: number): number {
  const { value } = setting;
  if (typeof value === 'number' && Number.isInteger(value) && value >= min && value <= max) {
    return value;
  }
  throw refuse(setting, `a whole number from ${min} to ${max}`);
}

function readNumber(setting: Setting, min: number, max: number): number {
  const { value } = setting;
  if (typeof value === 'number' && value >= min && value <= max) return value;
  throw refuse(setting, `a number from ${min} to ${max}`);
}

function readChoice<T extends string>(setting: Setting, of: readonly T[]): T {
  const found = of.find((name) => name === setting.value);
  if (found === undefined) throw refuse(setting, `one of ${of.join(', ')}`);
  return found;
}

function readName(setting: Setting): string {
  const { value } = setting;
  if (typeof value === 'string' && value.length >= 1 && value.length <= 64) return value;
  throw refuse(setting, 'a text of 1 to 64 characters');
}

function readTime(setting: Setting): number {
  const { value } = setting;
  const ms = typeof value === 'string' && TIME_PATTERN.test(value) ? Date.parse(value) : Number.NaN;
  if (Number.isNaN(ms)) throw refuse(setting, 'a UTC time such as 2026-01-31T12:00:00Z');
  return ms;
}

function readParameter(setting: Setting, shape: ParameterShape): number | string | boolean {
  if (shape.type === 'whole') return readWhole(setting, shape.min, shape.max);
  if (shape.type === 'choice') return readChoice(setting, shape.of);
  if (typeof setting.value === 'boolean') return setting.value;
  throw refuse(setting, 'true or false');
}

function placesOf(kind: FaultKind): FaultPlace[] {
  const { endpoints, isRealtime } = shapeOf(kind);
  return ['*', ...(isRealtime ? (['realtime'] as const) : []), ...endpoints];
}

const CONDITIONS = [
  'id',
  'where',
  'market',
  'probability',
  'after',
  'every',
  'from',
  'to',
  'firstS',
  'maxCount',
] as const;

function checkKeys(written: object, rule: string, parameters: readonly string[]): void {
  const allowed = ['kind', ...CONDITIONS, ...parameters];
  for (const [key, value] of Object.entries(written)) {
    if (!allowed.includes(key)) {
      throw refuse({ rule, key, value }, `only the keys ${allowed.join(', ')}`);
    }
  }
}

function readParameters(written: Readonly<Record<string, unknown>>, rule: string, kind: FaultKind) {
  const { parameters } = shapeOf(kind);
  return Object.entries(parameters).flatMap(([key, shape]) => {
    const value = written[key];
    const filled = value === undefined ? shape.default : readParameter({ rule, key, value }, shape);
    return filled === undefined ? [] : [[key, filled] as const];
  });
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return value !== null && typeof value === 'object' && !Array.isArray(value);
}

function readRule(written: unknown, index: number): FaultRule {
  const unnamed = `rule ${index + 1}`;
  if (!isObject(written)) {
    throw new FaultScriptError(`${unnamed}: ${show(written)} is no rule; expected keys and values`);
  }
  const setting = (key: string): Setting => ({ rule: unnamed, key, value: written[key] });
  const kind = readChoice(setting('kind'), faultKinds);
  const rule = `${unnamed} (${kind})`;
  const parameters = readParameters(written, rule, kind);
  checkKeys(written, rule, Object.keys(shapeOf(kind).parameters));
  const read = <T>(key: string, byDefault: T, reader: (setting: Setting) => T): T =>
    written[key] === undefined ? byDefault : reader({ rule, key, value: written[key] });
  const fromMs = read('from', Number.NEGATIVE_INFINITY, readTime);
  const toMs = read('to', Number.POSITIVE_INFINITY, readTime);
  if (toMs <= fromMs) throw refuse({ rule, key: 'to', value: written.to }, 'a time after from');
  return {
    ...Object.fromEntries(parameters),
    id: read('id', `rule-${index + 1}`, readName),
    kind,
    where: read<FaultPlace>('where', '*', (of) => readChoice(of, placesOf(kind))),
    market: read<string | undefined>('market', undefined, readName),
    probability: read('probability', 1, (of) => readNumber(of, 0, 1)),
    after: read('after', 0, (of) => readWhole(of, 0, MAX_COUNT)),
    every: read('every', 1, (of) => readWhole(of, 1, MAX_COUNT)),
    fromMs,
    toMs,
    firstMs: 1000 * read('firstS', Number.POSITIVE_INFINITY, (of) => readNumber(of, 0, MAX_COUNT)),
    maxCount: read('maxCount', Number.POSITIVE_INFINITY, (of) => readWhole(of, 0, MAX_COUNT)),
    written,
  };
}

/**
 * Checks a fault script: a list of rules, or `{seed, rules}`.
 *
 * @throws FaultScriptError at the first thing that is wrong.
 */
export function readFaultScript(script: unknown): FaultScript {
  const { rules, seed, ...others } = isObject(script) ? script : { rules: script };
  const [other] = Object.keys(others);
  if (other !== undefined) {
    throw new FaultScriptError(
      `the script: the key "${other}" is not allowed; expected seed, rules`,
    );
  }
  if (!Array.isArray(rules)) {
    throw new FaultScriptError(`the script: rules ${show(rules)} is not allowed; expected a list`);
  }
  if (rules.length > MAX_RULES) {
    throw new FaultScriptError(`the script: ${rules.length} rules; at most ${MAX_RULES}`);
  }
  const read = rules.map(readRule);
  const ids = read.map(({ id }) => id);
  const twice = ids.findIndex((id, index) => ids.indexOf(id) !== index);
  if (twice >= 0) {
    const setting = { rule: `rule ${twice + 1}`, key: 'id', value: ids[twice] };
    throw refuse(setting, 'a name that no other rule has');
  }
  const setting = { rule: 'the script', key: 'seed', value: seed };
  return { seed: seed === undefined ? undefined : readWhole(setting, 0, 2 ** 32 - 1), rules: read };
}
