import { z } from 'zod';
import { type EndpointName, endpoints } from '../../contract/endpoints.js';
import { onlyKeys, refusalOf, show } from '../../contract/shape.js';
import { boundedText } from '../../contract/values.js';
import { FaultScriptError } from '../errors.js';
import {
  type FaultKind,
  type FaultParameters,
  faultKinds,
  oneOf,
  shapeOf,
  whole,
} from './kinds.js';

/** Scope of a rule: everywhere that its kind can, at one endpoint, or in real time only. */
export type FaultPlace = '*' | 'realtime' | EndpointName;

const MAX_RULES = 100;
const MAX_COUNT = 1_000_000_000;
const TIME_PATTERN = /^\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d{1,3})?)?Z$/;

function number(min: number, max: number) {
  const error = `a number from ${min} to ${max}`;
  return z.number({ error }).min(min, { error }).max(max, { error });
}

const name = () => boundedText(1, 64, 'a text of 1 to 64 characters');

/** UTC text, read as UNIX milliseconds. */
function time() {
  const error = 'a UTC time such as 2026-01-31T12:00:00Z';
  return z
    .string({ error })
    .regex(TIME_PATTERN, { error })
    .transform((text) => Date.parse(text))
    .refine(Number.isFinite, { error });
}

/** When and where a rule fires; without any condition it does at every opportunity. */
function conditions(places: readonly FaultPlace[]) {
  return {
    kind: oneOf(faultKinds),
    /** Default: `rule-` and its number. Reports name it, and its luck depends on it. */
    id: name().optional(),
    where: oneOf(places).default('*'),
    /** Only requests and frames about this market. */
    market: name().optional(),
    /** Chance at each opportunity, 0 to 1. */
    probability: number(0, 1).default(1),
    /** Opportunities that pass before the first that counts. */
    after: whole(0, MAX_COUNT).default(0),
    /** Only every nth opportunity. */
    every: whole(1, MAX_COUNT).default(1),
    /** Only from, or before, this time of the exchange. */
    from: time().default(Number.NEGATIVE_INFINITY),
    to: time().default(Number.POSITIVE_INFINITY),
    /** Only within so many seconds after the script took effect, by this machine's clock. */
    firstS: number(0, MAX_COUNT).default(Number.POSITIVE_INFINITY),
    /** Fires this often at most. */
    maxCount: whole(0, MAX_COUNT).default(Number.POSITIVE_INFINITY),
  };
}

type Conditions = z.ZodObject<ReturnType<typeof conditions>>;

/** One rule as it is written. */
export type FaultRuleInput = Readonly<z.input<Conditions>> & FaultParameters;

/** One rule, checked, with every default filled in. */
export type FaultRule = Readonly<z.output<Conditions>> &
  FaultParameters & {
    readonly id: string;
    /** The rule as it was written. */
    readonly written: object;
  };

/** @throws FaultScriptError naming the place, the key, its value and what is expected */
function read<T extends z.ZodType>(schema: T, written: unknown, place: string): z.output<T> {
  const { data, error } = schema.safeParse(written);
  if (error !== undefined) throw new FaultScriptError(`${place}: ${refusalOf(error, written)}`);
  return data;
}

const KIND = z.looseObject({ kind: oneOf(faultKinds) }, { error: 'an object with a kind' });
const SCRIPT = onlyKeys({
  seed: whole(0, 2 ** 32 - 1).optional(),
  rules: z
    .array(z.unknown(), { error: 'a list' })
    .refine(({ length }) => length <= MAX_RULES, { error: `at most ${MAX_RULES} rules` }),
});

function placesOf(kind: FaultKind): FaultPlace[] {
  const { endpoints, isRealtime } = shapeOf(kind);
  return ['*', ...(isRealtime ? (['realtime'] as const) : []), ...endpoints];
}

function readRule(written: unknown, index: number): FaultRule {
  const { kind } = read(KIND, written, `rule ${index + 1}`);
  const place = `rule ${index + 1} (${kind})`;
  const schema = onlyKeys({ ...conditions(placesOf(kind)), ...shapeOf(kind).parameters });
  const rule = read(schema, written, place) as z.output<Conditions> & FaultParameters;
  if (rule.to <= rule.from) {
    const { to } = written as FaultRuleInput;
    throw new FaultScriptError(
      `${place}: to ${show(to)} is not allowed; expected a time after from`,
    );
  }
  const { where, market } = rule;
  const isOfMarkets =
    where === '*' || where === 'realtime' || 'market' in endpoints[where].params.shape;
  if (market !== undefined && !isOfMarkets) {
    throw new FaultScriptError(
      `${place}: market ${show(market)} is not allowed; requests for ${where} are of no market, leave it out`,
    );
  }
  return { ...rule, id: rule.id ?? `rule-${index + 1}`, written: written as object };
}

/**
 * Checks a fault script: a list of rules, or `{seed, rules}`.
 *
 * @throws FaultScriptError at the first thing that is wrong.
 */
export function readFaultScript(script: unknown) {
  const isObject = script !== null && typeof script === 'object' && !Array.isArray(script);
  const { seed, rules } = read(SCRIPT, isObject ? script : { rules: script }, 'the script');
  const checked = rules.map(readRule);
  const ids = checked.map(({ id }) => id);
  const twice = ids.findIndex((id, index) => ids.indexOf(id) !== index);
  if (twice >= 0) {
    throw new FaultScriptError(
      `rule ${twice + 1}: id ${show(ids[twice])} is not allowed; expected a name that no other rule has`,
    );
  }
  return { seed, rules: checked };
}
