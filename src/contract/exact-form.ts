import { z } from 'zod';

/**
 * A short cut past zod for values in the form that nearly all come in. A page of 1000 trades holds
 * 6000 values, and asking a chain of zod schemas about each costs several times what decoding the
 * JSON does. A scalar's schema may name an *exact form*: values of it are accepted by the schema and
 * come out of it as they went in. Readers of objects, arrays and tuples follow from the schemas
 * themselves. Whatever is not of the exact form goes to zod, which alone rejects and explains.
 */

/** Says that a value is not of the exact form, so that zod has to look at it. */
const NOT_EXACT = Symbol('not of the exact form');

type ExactReader = (value: unknown) => unknown;

/**
 * By definition, not by schema: what only describes a schema shares its definition, while
 * everything that changes what is accepted makes a new one and so loses the short cut.
 */
const exactForms = new WeakMap<object, ExactReader>();

/**
 * Names the exact form of a scalar.
 *
 * @param isExact must be true only for values that `schema` accepts and leaves as they are
 */
export function withExactForm<S extends z.ZodType>(
  schema: S,
  isExact: (value: unknown) => boolean,
): S {
  exactForms.set(schema.def, (value) => (isExact(value) ? value : NOT_EXACT));
  return schema;
}

function objectReader(shape: Readonly<Record<string, z.ZodType>>): ExactReader | undefined {
  const fields: Array<{ readonly name: string; readonly read: ExactReader }> = [];
  for (const [name, schema] of Object.entries(shape)) {
    const read = exactReader(schema);
    if (read === undefined) return undefined;
    fields.push({ name, read });
  }
  return (value) => {
    if (typeof value !== 'object' || value === null || Array.isArray(value)) return NOT_EXACT;
    const given = value as Record<string, unknown>;
    let isCopied = false;
    for (const { name, read } of fields) {
      const field = given[name];
      const data = read(field);
      if (data === NOT_EXACT) return NOT_EXACT;
      if (data !== field) isCopied = true;
    }
    // Copying what holds nothing else would double the garbage of every page.
    if (!isCopied && isBareObject(given, fields.length)) return given;
    return Object.fromEntries(fields.map(({ name, read }) => [name, read(given[name])]));
  };
}

/** Whether `value` has so many fields of its own and inherits none. */
function isBareObject(value: object, fieldCount: number): boolean {
  let count = 0;
  for (const _name in value) count += 1;
  return count === fieldCount && Object.getPrototypeOf(value) === Object.prototype;
}

/** @param length of a tuple; an array has any */
function listReader(readerAt: (at: number) => ExactReader | undefined, length?: number) {
  return (value: unknown) => {
    if (!Array.isArray(value) || (length !== undefined && value.length !== length)) {
      return NOT_EXACT;
    }
    let isCopied = false;
    for (let at = 0; at < value.length; at += 1) {
      const data = readerAt(at)?.(value[at]) ?? NOT_EXACT;
      if (data === NOT_EXACT) return NOT_EXACT;
      if (data !== value[at]) isCopied = true;
    }
    return isCopied ? value.map((entry, at) => readerAt(at)?.(entry)) : value;
  };
}

/** The reader that follows from a schema; undefined when some part of it has no exact form. */
function exactReader(schema: z.core.$ZodType): ExactReader | undefined {
  const named = exactForms.get(schema._zod.def);
  const hasChecks = (schema._zod.def.checks ?? []).length > 0;
  if (named !== undefined || hasChecks) return named;
  if (schema instanceof z.ZodObject) {
    const { shape, catchall } = schema.def;
    return catchall === undefined ? objectReader(shape as Record<string, z.ZodType>) : undefined;
  }
  if (schema instanceof z.ZodArray) {
    const read = exactReader(schema.def.element);
    return read && listReader(() => read);
  }
  if (schema instanceof z.ZodTuple) {
    const { items, rest } = schema.def;
    const readers = items.map(exactReader);
    if (rest !== null || readers.includes(undefined)) return undefined;
    return listReader((at) => readers[at], readers.length);
  }
  return undefined;
}

/**
 * Reads as `schema.safeParse` does, sooner where a value is of the exact form.
 *
 * @returns a function with the same results as the schema's own, save that objects and arrays which
 *   need no change are given back themselves, not as copies
 */
export function quickParser<T>(schema: z.ZodType<T>): (value: unknown) => z.ZodSafeParseResult<T> {
  const read = exactReader(schema);
  if (read === undefined) return (value) => schema.safeParse(value);
  return (value) => {
    const data = read(value);
    return data === NOT_EXACT ? schema.safeParse(value) : { success: true, data: data as T };
  };
}
