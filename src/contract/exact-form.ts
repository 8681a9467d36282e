import { z } from 'zod';
import { isObject } from '../kernel/json.js';

/**
 * A short cut past zod for values in the form that nearly all come in. A page of 1000 trades holds
 * 6000 values, and asking a chain of zod schemas about each costs several times what decoding the
 * JSON does. A scalar's schema may name an *exact form*: values of it are accepted by the schema and
 * come out of it as they went in. Readers of objects, arrays and tuples follow from the schemas
 * themselves. Whatever is not of the exact form goes to zod, which alone rejects and explains.
 */

/** Says that a value is not of the exact form, so that zod has to look at it. */
const NOT_EXACT = Symbol('not of the exact form');

interface ExactForm {
  /** True if `value` is of the form in whole: the schema accepts it and leaves it as it is. */
  readonly isExact: (value: unknown) => boolean;
  /**
   * The value as the schema gives it out, or {@link NOT_EXACT}. Only for values that are not exact
   * themselves: it makes copies without unknown fields.
   */
  readonly read: (value: unknown) => unknown;
}

/**
 * By definition, not by schema: what only describes a schema shares its definition, while
 * everything that changes what is accepted makes a new one and so loses the short cut.
 */
const exactForms = new WeakMap<object, ExactForm>();

/**
 * Names the exact form of a scalar.
 *
 * @param isExact must be true only for values that `schema` accepts and leaves as they are
 */
export function withExactForm<S extends z.ZodType>(
  schema: S,
  isExact: (value: unknown) => boolean,
): S {
  exactForms.set(schema.def, { isExact, read: () => NOT_EXACT });
  return schema;
}

function readWith(form: ExactForm, value: unknown): unknown {
  return form.isExact(value) ? value : form.read(value);
}

function objectForm(shape: Readonly<Record<string, z.ZodType>>): ExactForm | undefined {
  const fields: Array<readonly [name: string, form: ExactForm]> = [];
  for (const [name, schema] of Object.entries(shape)) {
    const form = exactForm(schema);
    if (form === undefined) return undefined;
    fields.push([name, form]);
  }
  const names = fields.map(([name]) => name);
  const tests = fields.map(([, form]) => form.isExact);
  return {
    isExact: (value) => isObject(value) && isExactInOrder(value, names, tests),
    read(value) {
      if (!isObject(value)) return NOT_EXACT;
      const copy: Array<readonly [string, unknown]> = [];
      for (const [name, form] of fields) {
        const data = readWith(form, value[name]);
        if (data === NOT_EXACT) return NOT_EXACT;
        copy.push([name, data]);
      }
      return Object.fromEntries(copy);
    },
  };
}

/**
 * Returns true if `value` holds the fields of `names`, in this order, and nothing else, each exact. Servers
 * write fields in one order, and a loop over a value's own names is the fastest way to what they
 * hold: the engine knows where each lies and does not look it up by name.
 */
function isExactInOrder(
  value: Readonly<Record<string, unknown>>,
  names: readonly string[],
  tests: ReadonlyArray<(value: unknown) => boolean>,
): boolean {
  if (Object.getPrototypeOf(value) !== Object.prototype) return false;
  let at = 0;
  for (const name in value) {
    if (name !== names[at] || tests[at]?.(value[name]) !== true) return false;
    at += 1;
  }
  return at === names.length;
}

/** @param forms of the entries: one for all of an array, or one for each place of a tuple */
function listForm(forms: ExactForm | readonly ExactForm[]): ExactForm {
  const isTuple = (given: typeof forms): given is readonly ExactForm[] => Array.isArray(given);
  const length = isTuple(forms) ? forms.length : undefined;
  const formAt = (at: number) => (isTuple(forms) ? (forms[at] as ExactForm) : forms);
  const isList = (value: unknown): value is readonly unknown[] =>
    Array.isArray(value) && (length === undefined || value.length === length);
  return {
    isExact(value) {
      if (!isList(value)) return false;
      for (let at = 0; at < value.length; at += 1) {
        if (!formAt(at).isExact(value[at])) return false;
      }
      return true;
    },
    read(value) {
      if (!isList(value)) return NOT_EXACT;
      const copy: unknown[] = [];
      for (let at = 0; at < value.length; at += 1) {
        const data = readWith(formAt(at), value[at]);
        if (data === NOT_EXACT) return NOT_EXACT;
        copy.push(data);
      }
      return copy;
    },
  };
}

/** The form that follows from a schema; undefined when some part of it has none. */
function exactForm(schema: z.core.$ZodType): ExactForm | undefined {
  const named = exactForms.get(schema._zod.def);
  const hasChecks = (schema._zod.def.checks ?? []).length > 0;
  if (named !== undefined || hasChecks) return named;
  if (schema instanceof z.ZodObject) {
    const { shape, catchall } = schema.def;
    return catchall === undefined ? objectForm(shape as Record<string, z.ZodType>) : undefined;
  }
  if (schema instanceof z.ZodArray) {
    const form = exactForm(schema.def.element);
    return form && listForm(form);
  }
  if (schema instanceof z.ZodTuple) {
    const { items, rest } = schema.def;
    const forms = items.flatMap((item) => exactForm(item) ?? []);
    return rest === null && forms.length === items.length ? listForm(forms) : undefined;
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
  const form = exactForm(schema);
  if (form === undefined) return (value) => schema.safeParse(value);
  return (value) => {
    const data = readWith(form, value);
    return data === NOT_EXACT ? schema.safeParse(value) : { success: true, data: data as T };
  };
}
