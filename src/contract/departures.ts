import { z } from 'zod';
import { compareDecimals, isDecimalText } from '../kernel/decimal.js';
import { isObject } from '../kernel/json.js';
import type { SpokenEndpoint } from './dialects.js';
import { type EndpointName, endpoints } from './endpoints.js';
import { readBody } from './error-shapes.js';
import { type RealtimeMethod, realtimeMethods, updateRecord } from './realtime.js';
import { historyTrade } from './resources.js';
import type { Asked } from './shape.js';

/**
 * How an answer departs from the contract, also where a reader takes it all the same. The contract's own
 * schemas say what is due; what comes is looked at as it came, before anything is filled in or normalised.
 */

/** One way to depart, and the fields that do. */
export interface Departure {
  readonly what: string;
  /** Without the numbers and names of rows, such as `ticker.open`; `result` is the whole. */
  readonly fields: readonly string[];
}

/** Both are chosen by the other side: so many ways, and fields of each, are reported. */
const WAYS_MAX = 30;
const FIELDS_MAX = 30;
const NAME_MAX = 60;

class Found {
  readonly #fields = new Map<string, Set<string>>();

  add(what: string, place: string): void {
    const fields = this.#fields.get(what) ?? new Set();
    if (this.#fields.size < WAYS_MAX) this.#fields.set(what, fields);
    if (fields.size < FIELDS_MAX) fields.add(place === '' ? 'result' : place);
    else fields.add('…');
  }

  get departures(): readonly Departure[] {
    return [...this.#fields].map(([what, fields]) => ({ what, fields: [...fields] }));
  }
}

type Row = Readonly<Record<string, unknown>>;

const below = (place: string, name: string) =>
  `${place === '' ? '' : `${place}.`}${name.slice(0, NAME_MAX)}`;

function typeOf(value: unknown): string {
  if (value === null) return 'null';
  if (Array.isArray(value)) {
    const isOfArrays = value.length > 0 && value.every((one) => Array.isArray(one));
    return isOfArrays ? 'an array of arrays' : 'an array';
  }
  const names = { string: 'text', number: 'a number', boolean: 'true or false' } as const;
  return names[typeof value as keyof typeof names] ?? 'an object';
}

/** Rows of one list or map have one place: what a field is in one of them it is in most. */
function look(schema: z.core.$ZodType, value: unknown, place: string, found: Found): void {
  const isList = schema instanceof z.ZodArray || schema instanceof z.ZodTuple;
  const isHolder = schema instanceof z.ZodObject || schema instanceof z.ZodRecord;
  const isDue = isList ? Array.isArray(value) : !isHolder || isObject(value);
  if (!isDue) {
    found.add(`${typeOf(value)} where ${isList ? 'an array' : 'an object'} is due`, place);
  } else if (schema instanceof z.ZodObject) {
    lookAtFields(schema.shape as Readonly<Record<string, z.ZodType>>, value as Row, place, found);
  } else if (schema instanceof z.ZodRecord) {
    for (const own of Object.values(value as Row)) look(schema.valueType, own, place, found);
  } else if (schema instanceof z.ZodArray) {
    for (const own of value as readonly unknown[]) look(schema.element, own, place, found);
  } else if (schema instanceof z.ZodTuple) {
    lookAtPlaces(schema.def.items, value as readonly unknown[], place, found);
  } else lookAtScalar(schema as z.ZodType, value, place, found);
}

function lookAtFields(
  shape: Readonly<Record<string, z.ZodType>>,
  row: Row,
  place: string,
  found: Found,
): void {
  for (const [name, own] of Object.entries(shape)) {
    if (Object.hasOwn(row, name)) look(own, row[name], below(place, name), found);
    else found.add('left out', below(place, name));
  }
  for (const name of Object.keys(row)) {
    if (!Object.hasOwn(shape, name)) found.add('not in the contract', below(place, name));
  }
}

function lookAtPlaces(
  items: readonly z.core.$ZodType[],
  values: readonly unknown[],
  place: string,
  found: Found,
): void {
  if (values.length !== items.length) {
    found.add(`arrays of ${values.length} where ${items.length} are due`, place);
  }
  for (const [at, own] of items.entries()) {
    if (at < values.length) look(own, values[at], `${place}[${at}]`, found);
  }
}

function lookAtScalar(schema: z.ZodType, value: unknown, place: string, found: Found): void {
  const { data, error } = schema.safeParse(value);
  if (value === null && !(schema instanceof z.ZodNull)) found.add('null', place);
  else if (error !== undefined) {
    found.add(`${typeOf(value)} that is not due: ${error.issues[0]?.message}`, place);
  } else if (typeof data !== typeof value) {
    found.add(`${typeOf(value)} where ${typeOf(data)} is due`, place);
  } else if (data !== value) found.add('in another notation', place);
}

function departuresIn(schema: z.ZodType, value: unknown): readonly Departure[] {
  const found = new Found();
  look(schema, value, '', found);
  return found.departures;
}

type Direction = 'ascending' | 'descending';

/** In which order rows are due: where the rows are, and what of each grows or falls. */
const ORDERS: Readonly<
  Partial<Record<EndpointName, (asked: Asked) => ReadonlyArray<[string, string, Direction]>>>
> = {
  history: () => [['', 'id', 'descending']],
  historyResult: () => [['', 'tid', 'descending']],
  kline: () => [['kline', 'time', 'ascending']],
  depth: () => [
    ['asks', '0', 'ascending'],
    ['bids', '0', 'descending'],
  ],
  book: ({ side }) => [['orders', 'price', side === 'sell' ? 'ascending' : 'descending']],
};

function lookAtOrder(name: EndpointName, payload: unknown, asked: Asked, found: Found): void {
  for (const [place, field, due] of ORDERS[name]?.(asked) ?? []) {
    const rows = place === '' ? payload : (payload as Row | null)?.[place];
    if (!Array.isArray(rows)) continue;
    const values = rows.map((row: unknown) => String((row as Row | null)?.[field]));
    if (!values.every(isDecimalText)) continue;
    const isIn = (sign: number) =>
      values.every(
        (value, at) => at === 0 || sign * compareDecimals(value, values[at - 1] ?? '') >= 0,
      );
    const signs = { ascending: 1, descending: -1 };
    if (isIn(signs[due])) continue;
    found.add(`${isIn(-signs[due]) ? 'in the opposite' : 'not in'} order, ${due} is due`, place);
  }
}

const ENVELOPE = { code: 200, success: true, message: '' } as const;

function lookAtEnvelope(body: Row, found: Found): void {
  for (const [name, due] of Object.entries(ENVELOPE)) {
    const value = body[name];
    if (!Object.hasOwn(body, name)) found.add('left out of the envelope', name);
    else if (value !== due) {
      found.add(`${typeOf(value)} in the envelope where ${JSON.stringify(due)} is due`, name);
    }
  }
  for (const name of Object.keys(body)) {
    const isDue = name === 'result' || Object.hasOwn(ENVELOPE, name);
    if (!isDue) found.add('not in the contract, in the envelope', below('', name));
  }
}

/**
 * How the good answer of an endpoint departs from the contract's; a refusal has no departures.
 *
 * @param spoken the endpoint in the dialect in which it was asked: that says how the payload is found
 * @param asked the contract's parameters
 */
export function departuresOfAnswer(
  name: EndpointName,
  spoken: Pick<SpokenEndpoint, 'envelope' | 'adopt'>,
  body: unknown,
  asked: Asked,
): readonly Departure[] {
  const { envelope, result } = endpoints[name];
  const reading = readBody(body, spoken.envelope);
  if (reading.kind !== 'success' && reading.kind !== 'bare') return [];
  const { payload } = reading;
  const found = new Found();
  const isWrapped = payload !== body;
  if (isWrapped && isObject(body)) lookAtEnvelope(body, found);
  if (isWrapped && !envelope) found.add('in an envelope, none is due', '');
  if (!isWrapped && envelope) found.add('without the envelope that is due', '');
  look(result.schema, payload, '', found);
  const adopted = spoken.adopt === undefined ? payload : spoken.adopt(payload, asked);
  lookAtOrder(name, adopted, asked, found);
  if (adopted === payload) return found.departures;
  const rest = departuresIn(result.schema, adopted);
  const afterAdoption = rest.map(({ what, fields }) => ({
    what: `once in the contract's form, ${what}`,
    fields,
  }));
  return [...found.departures, ...afterAdoption];
}

/** How the answer to a real-time request departs from the contract's. */
export function departuresOfResponse(
  method: RealtimeMethod,
  params: readonly unknown[],
  frame: unknown,
): readonly Departure[] {
  const { result, echoesParams } = realtimeMethods[method];
  const due = z.object({ id: z.unknown(), params: z.unknown(), result, error: z.null() });
  const found = new Found();
  look(due, frame, '', found);
  const echoed = (frame as Row).params;
  const isEcho = JSON.stringify(echoed) === JSON.stringify(echoesParams ? params : []);
  if (echoed !== undefined && !isEcho) {
    found.add(echoesParams ? 'not those of the request' : 'sent where [] is due', 'params');
  }
  return found.departures;
}

const contractUpdate = z.object({ result: updateRecord, error: z.null(), id: z.null() });

/** How an update of a state departs from the contract's, which is the record alone. */
export function departuresOfUpdate(frame: unknown): readonly Departure[] {
  const { method, params } = frame as Row;
  if (method === undefined) return departuresIn(contractUpdate, frame);
  const [, record] = params as readonly unknown[];
  const found = new Found();
  found.add('beside the record, which alone is due', 'method');
  look(updateRecord, record, '', found);
  return found.departures;
}

const pushedTrades = z.array(historyTrade);

/** How pushed trades depart from the rows of `history`; the contract has none of them. */
export function departuresOfPushedTrades(rows: unknown): readonly Departure[] {
  return departuresIn(pushedTrades, rows);
}
