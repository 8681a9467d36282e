import { z } from 'zod';
import { nearestName } from '../../kernel/nearest.js';
import { nameMeant } from '../../model/kinds.js';
import { Refusal } from './refusal.js';

/** Reads the input of an endpoint from a request, or says in a sentence what is wrong with it. */

/** Parameter of endpoints that have more than one format. */
export const FORMAT_PARAMETER = 'format';
/** Longest value that a sentence repeats. */
const SHOWN_LENGTH = 80;

/** Schema of a value, without what makes it optional. */
export function valueSchema(schema: z.core.$ZodType): z.core.$ZodType {
  const isWrapped = schema instanceof z.ZodOptional || schema instanceof z.ZodDefault;
  return isWrapped ? valueSchema(schema.unwrap()) : schema;
}

/** Choices of a value that is one of some words. */
function choicesOf(schema: z.core.$ZodType): readonly string[] | undefined {
  return schema instanceof z.ZodEnum ? schema.options.map(String) : undefined;
}

/** Values of a query as the schemas of the parameters want them: lists, or single texts. */
function gather(query: URLSearchParams, shape: z.ZodObject['shape']): Record<string, unknown> {
  const found: Record<string, unknown> = {};
  for (const name of new Set(query.keys())) {
    if (!Object.hasOwn(shape, name)) throw unknownName(name, shape);
    const schema = valueSchema(shape[name] as z.ZodType);
    const isList = schema instanceof z.ZodArray;
    const given = query.getAll(name);
    const values = isList ? given.flatMap((text) => text.split(',')) : given;
    if (values.length > 1 && !isList) {
      throw new Refusal(400, `${name} is given ${values.length} times; give it once`);
    }
    if (values.some((text) => text.trim() === '')) {
      throw new Refusal(400, `${name} is empty; leave it out or give it a value`);
    }
    found[name] = isList ? values.map((text) => text.trim()) : values[0];
  }
  return found;
}

/** Words in any case, in the singular or the plural, as the schema has them. */
function meant(value: unknown, schema: z.core.$ZodType): unknown {
  if (Array.isArray(value) && schema instanceof z.ZodArray) {
    return value.map((one) => meant(one, valueSchema(schema.element)));
  }
  const choices = choicesOf(schema);
  if (choices === undefined || typeof value !== 'string') return value;
  return nameMeant(value, choices) ?? value;
}

function unknownName(name: string, shape: z.ZodObject['shape']): Refusal {
  const known = Object.keys(shape);
  const nearest = nearestName(name, known);
  const advice =
    nearest !== undefined
      ? `did you mean ${nearest}?`
      : known.length === 0
        ? 'this endpoint takes none'
        : `known are ${known.join(', ')}`;
  return new Refusal(400, `unknown parameter ${shown(name)}; ${advice}`);
}

const shown = (value: unknown) => {
  const text = JSON.stringify(value) ?? '';
  return text.length > SHOWN_LENGTH ? `${text.slice(0, SHOWN_LENGTH)}…` : text;
};

/** Form of a value, in words that finish "must be …". */
export function formOf(schema: z.core.$ZodType): string {
  const inner = valueSchema(schema);
  const choices = choicesOf(inner);
  if (choices !== undefined) return `one of ${choices.join(', ')}`;
  if (inner instanceof z.ZodArray) return `a list, each ${formOf(inner.element)}`;
  if (inner instanceof z.ZodBoolean) return 'true or false';
  if (inner instanceof z.ZodNumber) {
    const { minValue, maxValue } = inner;
    const isBounded = maxValue !== null && maxValue < Number.MAX_SAFE_INTEGER;
    return `a whole number ${isBounded ? `from ${minValue} to ${maxValue}` : `of at least ${minValue}`}`;
  }
  if (inner instanceof z.ZodISODate) return 'a date such as 2026-01-31';
  if (inner instanceof z.ZodType && inner.description !== undefined) return inner.description;
  if (inner instanceof z.ZodString) {
    const { minLength, maxLength } = inner;
    return maxLength === null ? 'a text' : `a text of ${minLength ?? 0} to ${maxLength} characters`;
  }
  return 'as the reference of the API describes it';
}

/** Sentence on the first fault of an input. */
function sentenceOf(
  { path, code, ...issue }: z.core.$ZodIssue,
  raw: Readonly<Record<string, unknown>>,
  shape: z.ZodObject['shape'],
): Refusal {
  if (code === 'unrecognized_keys' && 'keys' in issue)
    return unknownName(issue.keys[0] ?? '', shape);
  const [name = ''] = path.map(String);
  const schema = Object.hasOwn(shape, name) ? shape[name] : undefined;
  if (schema === undefined) return new Refusal(400, 'send one JSON object as the body');
  const value = raw[name];
  const form = formOf(schema as z.ZodType);
  if (value === undefined) return new Refusal(400, `${name} is missing; it must be ${form}`);
  const one: unknown = Array.isArray(value) && path.length > 1 ? value[Number(path[1])] : value;
  const inner = valueSchema(schema as z.ZodType);
  const choices = choicesOf(inner instanceof z.ZodArray ? valueSchema(inner.element) : inner);
  const nearest = typeof one === 'string' && choices && nearestName(one, choices);
  const advice = nearest ? `; did you mean ${nearest}?` : '';
  if (code === 'too_big' && Array.isArray(one)) {
    return new Refusal(400, `${name} has ${one.length} values, which are too many; ask in parts`);
  }
  return new Refusal(400, `${name} is ${shown(one)} and must be ${form}${advice}`);
}

/** Parts of a request that hold input. */
export interface RawInput {
  readonly query: URLSearchParams;
  /** Parts of the path, decoded. */
  readonly params: Readonly<Record<string, string>>;
  /** Parsed body of a POST; undefined for a GET. */
  readonly body: unknown;
}

/**
 * Reads the input of an endpoint.
 *
 * @throws Refusal with one sentence that names the parameter and what to do
 */
export function readInput(schema: z.ZodObject, { query, params, body }: RawInput): unknown {
  const { shape } = schema;
  const isPost = body !== undefined;
  if (isPost && (typeof body !== 'object' || body === null || Array.isArray(body))) {
    throw new Refusal(400, 'send one JSON object as the body');
  }
  const own = isPost ? { ...gather(query, {}), ...body } : gather(query, shape);
  const clash = Object.keys(params).find((name) => Object.hasOwn(own, name));
  if (clash !== undefined)
    throw new Refusal(400, `${clash} is part of the path; give it there alone`);
  const given = Object.entries({ ...own, ...params });
  const raw = Object.fromEntries(
    given.map(([name, value]) => [
      name,
      Object.hasOwn(shape, name) ? meant(value, valueSchema(shape[name] as z.ZodType)) : value,
    ]),
  );
  const parsed = schema.strict().safeParse(raw);
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  throw issue === undefined ? new Refusal(400, 'invalid input') : sentenceOf(issue, raw, shape);
}
