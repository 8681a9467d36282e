import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js';
import { SchemaBook } from '../../../src/contract/documents/json-schema.js';
import { type EndpointName, endpointNames, endpoints } from '../../../src/contract/endpoints.js';
import { readBody } from '../../../src/contract/error-shapes.js';
import type { Case, Context } from '../context.js';
import { known } from '../context.js';
import type { Answer, Query } from '../exchange-probe.js';
import { type Findings, Skip } from '../outcome.js';

export const publicNames = endpointNames.filter((name) => endpoints[name].access === 'public');

/** An hour of minutes up to the newest trade. */
export async function recentMinutes(context: Context, minutes = 60) {
  const [newest] = await known(context, 'historyResult', pageOf(context, 1000));
  if (newest === undefined) throw new Skip(`${context.market} has no trades`);
  const end = newest.date - (newest.date % 60);
  return { start: end - (minutes - 1) * 60, end };
}

/** The page of the newest trades. */
export function pageOf({ market }: Context, limit: number): Query {
  return { market, since: 0, limit };
}

/** A good request to each public endpoint. */
export async function goodQuery(name: EndpointName, context: Context): Promise<Query> {
  const { market } = context;
  const asked: Partial<Record<EndpointName, () => Promise<Query> | Query>> = {
    ticker: () => ({ market }),
    kline: async () => ({ market, ...(await recentMinutes(context)), interval: 60 }),
    history: () => ({ market, lastId: 0, limit: 1000 }),
    historyResult: () => pageOf(context, 1000),
    depth: () => ({ market, limit: 1000 }),
    book: () => ({ market, side: 'buy', offset: 0, limit: 1000 }),
  };
  return (await asked[name]?.()) ?? {};
}

const ENVELOPE_KEYS = ['code', 'success', 'message', 'result'];

/** Status, content type and envelope of a success. */
export function judgeSuccess(name: EndpointName, answer: Answer, findings: Findings): void {
  const { status, contentType, json } = answer;
  findings.check(status === 200, `${answer.target} gave ${status} ${answer.text.slice(0, 120)}`);
  findings.check(/^application\/json\b/.test(contentType), `the content type is ${contentType}`);
  const body = (typeof json === 'object' && json !== null ? json : {}) as Record<string, unknown>;
  if (!endpoints[name].envelope) {
    findings.check(!('success' in body), 'an envelope where the payload was due');
    return;
  }
  const { code, success, message } = body;
  findings.check(code === 200, `code is ${JSON.stringify(code)}`);
  findings.check(success === true, `success is ${JSON.stringify(success)}`);
  findings.check(message === '', `message is ${JSON.stringify(message)}`);
  findings.check('result' in body, 'there is no result');
  const more = Object.keys(body).filter((key) => !ENVELOPE_KEYS.includes(key));
  if (more.length > 0) findings.differs('moreFields', `the envelope has ${more.join(', ')}`);
}

const validators = new Map<EndpointName, ValidateFunction>();

/** A check of JSON types, letter by letter as the documents have them. */
function strictlyOf(name: EndpointName): ValidateFunction {
  const made = validators.get(name);
  if (made !== undefined) return made;
  const book = new SchemaBook('draft-2020-12');
  const schema = book.of(endpoints[name].result.schema);
  const ajv = new Ajv2020({ strict: false });
  const validate = ajv.compile({ ...schema, components: { schemas: book.named() } });
  validators.set(name, validate);
  return validate;
}

/** Paths of fields in `raw` that `read` dropped, list positions left out. */
function dropped(raw: unknown, read: unknown, path = ''): string[] {
  if (typeof raw !== 'object' || raw === null || typeof read !== 'object' || read === null)
    return [];
  return Object.entries(raw).flatMap(([key, value]) => {
    const place = Array.isArray(raw) ? path : `${path}.${key}`;
    const kept = (read as Record<string, unknown>)[key];
    return key in read ? dropped(value, kept, place) : [place];
  });
}

function hasExponent(value: unknown): boolean {
  if (typeof value === 'string') return /^-?\d+(\.\d+)?e[+-]?\d+$/i.test(value);
  return typeof value === 'object' && value !== null && Object.values(value).some(hasExponent);
}

function isEmpty(payload: unknown): boolean {
  return typeof payload === 'object' && payload !== null && Object.keys(payload).length === 0;
}

/** Fields and JSON types of everything in a payload. */
export function judgeFields(name: EndpointName, answer: Answer, findings: Findings): void {
  const reading = readBody(answer.json, endpoints[name].envelope);
  if (reading.kind !== 'success') {
    findings.fail(`${answer.target} gave no payload: ${answer.text.slice(0, 120)}`);
    return;
  }
  const { payload } = reading;
  const { data, rejected } = endpoints[name].result.parse(payload);
  for (const { at, reason } of rejected) findings.fail(`row ${at}: ${reason}`);
  if (rejected.length > 0) return;
  const strictly = strictlyOf(name);
  if (!strictly(payload)) {
    const { instancePath, message } = strictly.errors?.[0] ?? {};
    findings.differs('numbersAsText', `${instancePath} ${message}`);
  }
  if (hasExponent(payload)) findings.differs('numbersAsText', 'decimals in exponent form');
  const more = [...new Set(dropped(payload, data))];
  if (more.length > 0) findings.differs('moreFields', `fields ${more.slice(0, 5).join(', ')}`);
  if (isEmpty(payload)) throw new Skip('nothing came that has fields');
}

export const resourceCases: readonly Case[] = publicNames.flatMap((name) => [
  {
    id: `${name}.reply`,
    title: `${endpoints[name].path} answers ${endpoints[name].envelope ? 'in the envelope' : 'bare'}`,
    async run(context, findings) {
      const query = await goodQuery(name, context);
      judgeSuccess(name, await context.probe.get(name, query), findings);
    },
  },
  {
    id: `${name}.fields`,
    title: `${endpoints[name].path} has the fields and JSON types of its resource`,
    async run(context, findings) {
      const query = await goodQuery(name, context);
      judgeFields(name, await context.probe.get(name, query), findings);
    },
  },
]);
