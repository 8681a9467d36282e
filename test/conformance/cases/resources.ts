import {
  type EndpointName,
  endpointNames,
  endpoints,
  type ParamsOf,
} from '../../../src/contract/endpoints.js';
import type { Asked } from '../client-probe.js';
import { payloadOf, readByClient } from '../client-reading.js';
import { type Case, type Context, known } from '../context.js';
import type { Answer, Query } from '../exchange-probe.js';
import { type Findings, Skip } from '../outcome.js';
import { BARE, PATHS, PAYLOADS } from '../tables.js';
import { lookAtPayload } from '../wire-form.js';

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
  if (BARE.includes(name)) {
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

function isEmpty(payload: unknown): boolean {
  return typeof payload === 'object' && payload !== null && Object.keys(payload).length === 0;
}

/** Fields and JSON types of everything in a payload, and that the client reads all of it. */
export function judgeFields(name: EndpointName, answer: Answer, findings: Findings): void {
  const payload = payloadOf(name, answer);
  if (payload === undefined) {
    findings.fail(`${answer.target} gave no payload: ${answer.text.slice(0, 120)}`);
    return;
  }
  const { faults, loose, more } = lookAtPayload(PAYLOADS[name], payload);
  for (const fault of faults) findings.fail(fault);
  const [firstLoose] = loose;
  if (firstLoose !== undefined) findings.differs('numbersAsText', firstLoose);
  const names = [...new Set(more)];
  if (names.length > 0) findings.differs('moreFields', `fields ${names.slice(0, 5).join(', ')}`);
  if (faults.length > 0) return;
  readByClient(name, answer);
  if (isEmpty(payload)) throw new Skip('nothing came that has fields');
}

/** What the client must send: the path, and the parameters as they were given. */
function judgeQuestion(
  { request }: Asked<EndpointName>,
  name: EndpointName,
  query: Query,
  findings: Findings,
) {
  const { method, path, query: sent } = request;
  findings.check(method === 'GET' && path === PATHS[name], `${method} ${path} was sent`, 'client');
  const due = Object.entries(query).map(([field, value]) => `${field}=${value}`);
  const given = Object.entries(sent).map(([field, value]) => `${field}=${value}`);
  const isSame = String(due.sort()) === String(given.sort());
  findings.check(isSame, `[${given}] was sent for [${due}]`, 'client');
}

/** The typed client asks; request, answer and reading are judged. */
async function judgeCall(name: EndpointName, context: Context, findings: Findings): Promise<void> {
  const query = await goodQuery(name, context);
  const params = query as ParamsOf<EndpointName>;
  const asked = await context.client.ask(name, params, 'get', context.signal);
  judgeQuestion(asked, name, query, findings);
  judgeSuccess(name, asked.answer, findings);
}

export const resourceCases: readonly Case[] = publicNames.flatMap((name) => [
  {
    id: `${name}.reply`,
    title: `${endpoints[name].path} answers the client ${endpoints[name].envelope ? 'in the envelope' : 'bare'}`,
    run: (context, findings) => judgeCall(name, context, findings),
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
