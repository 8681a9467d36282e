import { z } from 'zod';
import { quickParser } from './exact-form.js';
import { nameText } from './values.js';

/** A row that did not fit its schema: kept with its reason, so that nothing vanishes silently. */
export interface RejectedRow {
  /** Position in the reply, or the key in a map. */
  readonly at: number | string;
  /** Which fields are wrong, and how. */
  readonly reason: string;
  /** The row as it came. */
  readonly payload: unknown;
}

/** A payload after reading: the rows that fit, and those that did not. */
export interface ParsedPayload<T> {
  /** What fits. */
  readonly data: T;
  /** What does not, row by row. */
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
  parse(payload: unknown): ParsedPayload<T>;
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

/** The same for anything that {@link ResultShape.parse} threw; undefined when it is no such error. */
export function describeShapeError(error: unknown): string | undefined {
  return error instanceof z.ZodError ? describeIssues(error) : undefined;
}

/** A payload that is good or bad as a whole. */
export function wholeShape<T>(schema: z.ZodType<T>): ResultShape<T> {
  const parseQuickly = quickParser(schema);
  return {
    schema,
    parse(payload) {
      for (const part of [payload, ...partsOf(payload)]) {
        if (Array.isArray(part)) boundRows(part.length);
      }
      const parsed = parseQuickly(payload);
      if (!parsed.success) throw parsed.error;
      return { data: parsed.data, rejected: [] };
    },
  };
}

/** What an object or array holds, when that is not too much. */
function partsOf(payload: unknown): unknown[] {
  if (typeof payload !== 'object' || payload === null) return [];
  const parts: unknown[] = Object.values(payload);
  boundRows(parts.length);
  return parts;
}

type RowParser<T> = (value: unknown) => z.ZodSafeParseResult<T>;

function parseRows<T>(parseRow: RowParser<T>, values: readonly unknown[]): ParsedPayload<T[]> {
  boundRows(values.length);
  const data: T[] = [];
  const rejected: RejectedRow[] = [];
  for (let at = 0; at < values.length; at += 1) {
    const payload = values[at];
    const parsed = parseRow(payload);
    if (parsed.success) data.push(parsed.data);
    else rejected.push({ at, reason: describeIssues(parsed.error), payload });
  }
  return { data, rejected };
}

/** An array of independent rows. */
export function listShape<T>(row: z.ZodType<T>): ResultShape<T[]> {
  const envelope = z.array(z.unknown());
  const parseRow = quickParser(row);
  return {
    schema: z.array(row),
    parse: (payload) =>
      // An array is one whatever is in it: no need to copy it only to see that.
      parseRows(parseRow, Array.isArray(payload) ? payload : envelope.parse(payload)),
  };
}

function isObject(value: unknown): boolean {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** An object of independent values keyed by name. An empty array stands for an empty object. */
export function mapShape<T>(value: z.ZodType<T>): ResultShape<Record<string, T>> {
  // Not z.record: it fails as a whole over one bad key, and drops `__proto__` without a word.
  const envelope = z.preprocess(
    (payload) => (Array.isArray(payload) && payload.length === 0 ? {} : payload),
    z.custom<Record<string, unknown>>(isObject, { error: 'not an object keyed by name' }),
  );
  const parseValue = quickParser(value);
  return {
    schema: z.record(nameText, value),
    parse(payload) {
      const entries = Object.entries(envelope.parse(payload));
      boundRows(entries.length);
      const data: Record<string, T> = Object.create(null) as Record<string, T>;
      const rejected: RejectedRow[] = [];
      for (const [at, entry] of entries) {
        const key = nameText.safeParse(at);
        const parsed = parseValue(entry);
        if (!key.success) {
          rejected.push({ at, reason: `name: ${describeIssues(key.error)}`, payload: entry });
        } else if (parsed.success) data[at] = parsed.data;
        else rejected.push({ at, reason: describeIssues(parsed.error), payload: entry });
      }
      return { data, rejected };
    },
  };
}

/** An object with header fields and one field that holds independent rows. */
export function holderShape<H extends z.ZodObject, K extends string, T>(
  header: H,
  field: K,
  row: z.ZodType<T>,
): ResultShape<z.infer<H> & Record<K, T[]>> {
  const envelope = header.extend({ [field]: z.array(z.unknown()) });
  const parseRow = quickParser(row);
  return {
    schema: header.extend({ [field]: z.array(row) }) as unknown as z.ZodType<
      z.infer<H> & Record<K, T[]>
    >,
    parse(payload) {
      const held = envelope.parse(payload) as Record<string, unknown>;
      const rows = parseRows(parseRow, held[field] as unknown[]);
      const data = { ...held, [field]: rows.data } as z.infer<H> & Record<K, T[]>;
      return { data, rejected: rows.rejected };
    },
  };
}
