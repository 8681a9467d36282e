import { z } from 'zod';
import { isObject } from '../kernel/json.js';
import { quickParser } from './exact-form.js';
import { DECIMAL_EXPECTED, nameText } from './values.js';

/** A row that did not fit its schema: kept with its reason, so that nothing vanishes silently. */
export interface RejectedRow {
  /** Position in the reply, or the key in a map. */
  readonly at: number | string;
  /** Which fields are wrong, and how. */
  readonly reason: string;
  /** The row as it came. */
  readonly payload: unknown;
}

/** Parameters of the request for a payload, as far as it says something of the payload. */
export interface Asked {
  /** The market that was asked for, or the key of an entry in a map. */
  readonly market?: string | undefined;
  /** The question as it was sent, in the words of the exchange's dialect. */
  readonly query?: Readonly<Record<string, unknown>> | undefined;
  /** The other parameters. */
  readonly [param: string]: unknown;
}

/** Forms that a reader accepts besides the contract's (tolerance.ts), and checks against the request. */
export interface Tolerance<T> {
  /** Fills in what is left out and can only be one thing. Called for what is not of the usual form. */
  readonly complete?: (value: unknown, asked: Asked) => unknown;
  /** Asked about what the contract's schema refuses. */
  readonly schema?: z.ZodType<T>;
  /** The fields that repeat the question: with another value it is the answer to another one. */
  readonly repeats?: readonly (keyof T & string)[];
}

/** A payload after reading: the rows that fit, and those that did not. */
export interface ParsedPayload<T> {
  /** Rows that fit. */
  readonly data: T;
  /** Rows that do not, one by one. */
  readonly rejected: readonly RejectedRow[];
}

/**
 * How a result is read. `schema` describes the whole payload (for documents and strict checks);
 * `parse` reads it row by row, so that one malformed row does not cost the other 999.
 */
export interface ResultShape<T> {
  /** The whole payload as a zod schema. */
  readonly schema: z.ZodType<T>;
  /**
   * Reads a payload.
   *
   * @throws z.ZodError when the payload as a whole is not of this shape. */
  parse(payload: unknown, asked?: Asked): ParsedPayload<T>;
  /** Returns true if a payload without the envelope that was due shows by its form what it is. */
  isTelling(parsed: ParsedPayload<T>): boolean;
}

/** Most rows of one answer: the longest honest ones list all markets. */
const ROWS_MAX = 20_000;

/** Each row that is wrong costs an error: an answer with too many rows is refused as a whole. */
function boundRows(count: number): void {
  if (count <= ROWS_MAX) return;
  const message = `more than ${ROWS_MAX} rows`;
  throw new z.ZodError([{ code: 'custom', path: [], message, input: count }]);
}

/** One line that names the field and what is wrong with it. */
export function describeIssues(error: z.ZodError): string {
  const texts = error.issues.map((issue) => `${issue.path.join('.') || 'value'}: ${issue.message}`);
  // One value may break several rules that say the same to people.
  return [...new Set(texts)].slice(0, 5).join('; ');
}

/**
 * Reads a payload, and where an amount is no text reads it again with its numbers as they were written:
 * some servers send amounts as bare numbers.
 *
 * @param asWritten the payload with every number as text
 * @throws z.ZodError as the shape does
 */
export function parseAsWritten<T>(
  shape: Pick<ResultShape<T>, 'parse'>,
  payload: unknown,
  asWritten: () => unknown,
  asked?: Asked,
): ParsedPayload<T> {
  try {
    const parsed = shape.parse(payload, asked);
    if (!parsed.rejected.some(({ reason }) => reason.includes(DECIMAL_EXPECTED))) return parsed;
  } catch (error) {
    const isAmount =
      error instanceof z.ZodError &&
      error.issues.some(({ message }) => message === DECIMAL_EXPECTED);
    if (!isAmount) throw error;
  }
  return shape.parse(asWritten(), asked);
}

/** A value as it may be shown in an error. */
export function show(value: unknown): string {
  const text = JSON.stringify(value) ?? String(value);
  return text.length > 80 ? `${text.slice(0, 80)}…` : text;
}

/**
 * First refusal of a schema: the key, its value, and what is expected, which its message says.
 *
 * @param written what was checked; left out, no value is shown
 */
export function refusalOf({ issues: [issue] }: z.ZodError, written?: unknown): string {
  const [key] = issue?.code === 'unrecognized_keys' ? issue.keys : [];
  const path = [...(issue?.path ?? []), ...(key === undefined ? [] : [key])];
  let value = written;
  for (const name of path)
    value = (value as Readonly<Record<PropertyKey, unknown>> | undefined)?.[name];
  const named = path.join('.');
  if (named !== '' && written !== undefined && value === undefined) {
    return `${named} is missing; expected ${issue?.message}`;
  }
  const shown = written === undefined ? [] : [show(value)];
  const what = [...(named === '' ? [] : [named]), ...shown].join(' ');
  return `${what || 'it'} is not allowed; expected ${issue?.message}`;
}

/** An object with these keys only; its messages say what {@link refusalOf} expects. */
export function onlyKeys<const S extends z.core.$ZodShape>(shape: S) {
  const names = Object.keys(shape).join(', ');
  const only = names === '' ? 'no keys' : `only ${names}`;
  return z.strictObject(shape, {
    error: ({ code }) => (code === 'unrecognized_keys' ? only : `an object with ${only}`),
  });
}

/** Why options that a program without types passed are refused; values of unknown names may be secrets. */
export function refusedOptions(schema: z.ZodType, given: unknown): string | undefined {
  const { error } = schema.safeParse(given);
  const [issue] = error?.issues ?? [];
  if (error === undefined || issue === undefined) return undefined;
  if (issue.path.length > 0) return refusalOf(error, given);
  if (issue.code === 'unrecognized_keys') return refusalOf(error);
  return `${kindOf(given)} was given; expected ${issue.message}`;
}

/** Names the value given instead of an object, without its value. */
function kindOf(given: unknown): string {
  if (given === undefined || given === null) return 'nothing';
  return Array.isArray(given) ? 'a list' : `a ${typeof given}`;
}

/** A payload that is good or bad as a whole. */
export function wholeShape<T>(schema: z.ZodType<T>, tolerance?: Tolerance<T>): ResultShape<T> {
  const parseTolerantly = parserOf(schema, tolerance);
  return {
    schema,
    parse(payload, asked = {}) {
      for (const part of [payload, ...partsOf(payload)]) {
        if (Array.isArray(part)) boundRows(part.length);
      }
      const parsed = parseTolerantly(payload, asked);
      if (!parsed.success) throw parsed.error;
      return { data: parsed.data, rejected: [] };
    },
    isTelling: () => true,
  };
}

/** Lists the contents of an object or array, when that is not too much. */
function partsOf(payload: unknown): unknown[] {
  if (typeof payload !== 'object' || payload === null) return [];
  const parts: unknown[] = Object.values(payload);
  boundRows(parts.length);
  return parts;
}

type RowParser<T> = (value: unknown, asked: Asked) => z.ZodSafeParseResult<T>;

/** Reads by the contract's schema, and what that does not take with what is tolerated besides. */
function parserOf<T>(schema: z.ZodType<T>, tolerance: Tolerance<T> = {}): RowParser<T> {
  const parseQuickly = quickParser(schema);
  const { complete, schema: tolerated, repeats = [] } = tolerance;
  return (value, asked) => {
    const whole = complete === undefined ? value : complete(value, asked);
    const quick = parseQuickly(whole);
    const parsed = quick.success || tolerated === undefined ? quick : tolerated.safeParse(whole);
    if (!parsed.success || repeats.length === 0) return parsed;
    const { data } = parsed;
    const field = repeats.find((one) => asked[one] !== undefined && data[one] !== asked[one]);
    if (field === undefined) return parsed;
    const message = `the answer is about ${show(data[field])}, the request about ${show(asked[field])}`;
    const error = new z.ZodError([{ code: 'custom', path: [field], message, input: data }]);
    return { success: false, error: error as z.ZodError<T> };
  };
}

function parseRows<T>(
  parseRow: RowParser<T>,
  values: readonly unknown[],
  asked: Asked,
): ParsedPayload<T[]> {
  boundRows(values.length);
  const data: T[] = [];
  const rejected: RejectedRow[] = [];
  for (let at = 0; at < values.length; at += 1) {
    const payload = values[at];
    const parsed = parseRow(payload, asked);
    if (parsed.success) data.push(parsed.data);
    else rejected.push({ at, reason: describeIssues(parsed.error), payload });
  }
  return { data, rejected };
}

/** An array of independent rows. */
export function listShape<T>(row: z.ZodType<T>, tolerance?: Tolerance<T>): ResultShape<T[]> {
  const envelope = z.array(z.unknown());
  const parseRow = parserOf(row, tolerance);
  return {
    schema: z.array(row),
    parse: (payload, asked = {}) =>
      // An array is one whatever is in it: no need to copy it only to see that.
      parseRows(parseRow, Array.isArray(payload) ? payload : envelope.parse(payload), asked),
    // An empty one could be the result of anything.
    isTelling: ({ data }) => data.length > 0,
  };
}

/** An object of independent values keyed by name. An empty array stands for an empty object. */
export function mapShape<T>(
  value: z.ZodType<T>,
  tolerance?: Tolerance<T>,
): ResultShape<Record<string, T>> {
  // Not z.record: it fails as a whole over one bad key, and drops `__proto__` without a word.
  const envelope = z.preprocess(
    (payload) => (Array.isArray(payload) && payload.length === 0 ? {} : payload),
    z.custom<Record<string, unknown>>(isObject, { error: 'not an object keyed by name' }),
  );
  const parseValue = parserOf(value, tolerance);
  return {
    schema: z.record(nameText, value),
    parse(payload) {
      const entries = Object.entries(envelope.parse(payload));
      boundRows(entries.length);
      const data: Record<string, T> = Object.create(null) as Record<string, T>;
      const rejected: RejectedRow[] = [];
      for (const [at, entry] of entries) {
        const key = nameText.safeParse(at);
        const parsed = parseValue(entry, { market: at });
        if (!key.success) {
          rejected.push({ at, reason: `name: ${describeIssues(key.error)}`, payload: entry });
        } else if (parsed.success) data[at] = parsed.data;
        else rejected.push({ at, reason: describeIssues(parsed.error), payload: entry });
      }
      return { data, rejected };
    },
    isTelling: ({ data }) => Object.keys(data).length > 0,
  };
}

/** An object with header fields and one field that holds independent rows. */
export function holderShape<H extends z.ZodObject, K extends string, T>(
  header: H,
  field: K,
  row: z.ZodType<T>,
  tolerance?: Tolerance<T>,
): ResultShape<z.infer<H> & Record<K, T[]>> {
  const envelope = header.extend({ [field]: z.array(z.unknown()) });
  const parseRow = parserOf(row, tolerance);
  return {
    schema: header.extend({ [field]: z.array(row) }) as unknown as z.ZodType<
      z.infer<H> & Record<K, T[]>
    >,
    parse(payload, asked = {}) {
      const held = envelope.parse(payload) as Record<string, unknown>;
      const rows = parseRows(parseRow, held[field] as unknown[], asked);
      const data = { ...held, [field]: rows.data } as z.infer<H> & Record<K, T[]>;
      return { data, rejected: rows.rejected };
    },
    isTelling: () => true,
  };
}
