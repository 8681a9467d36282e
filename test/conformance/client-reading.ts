import { headerText, readReply } from '../../src/client/reply-reader.js';
import {
  type Endpoint,
  type EndpointName,
  endpoints,
  type ResultOf,
} from '../../src/contract/endpoints.js';
import type { ParsedPayload } from '../../src/contract/shape.js';
import { codeOf, messageOf } from '../../src/kernel/errors.js';
import type { Answer } from './exchange-probe.js';
import { type Findings, SideError } from './outcome.js';
import { BARE, ERROR_CODES, PAYLOADS } from './tables.js';
import { firstDifference, lookAtPayload } from './wire-form.js';

/** The payload of a success, out of its envelope where one is due; undefined when there is none. */
export function payloadOf(name: EndpointName, { json }: Answer): unknown {
  if (BARE.includes(name)) return json;
  const body = (typeof json === 'object' && json !== null ? json : {}) as Record<string, unknown>;
  return body.success === true ? body.result : undefined;
}

function isUtf8(body: Uint8Array): boolean {
  try {
    new TextDecoder('utf-8', { fatal: true }).decode(body);
    return true;
  } catch {
    return false;
  }
}

/** What of a question its answer repeats: an order of another market or side answers another one. */
const REPEATED: Readonly<Partial<Record<EndpointName, readonly string[]>>> = {
  orderNew: ['market', 'side'],
  orders: ['market'],
};

type Row = Readonly<Record<string, unknown>>;

function faultOfRepeated(name: EndpointName, payload: unknown, asked: Row): string | undefined {
  const { result = [payload] } = payload as { readonly result?: readonly unknown[] };
  for (const field of REPEATED[name] ?? []) {
    const other = (result as readonly Row[]).find((row) => row[field] !== asked[field]);
    if (other) return `${field} is ${String(other[field])}, asked for was ${String(asked[field])}`;
  }
  return undefined;
}

/**
 * Why nobody could read an answer by the contract: the first reason, or undefined.
 *
 * @param asked what was asked for, where the answer is held against it
 */
function faultOfServer(name: EndpointName, answer: Answer, asked?: Row): string | undefined {
  const { target, status, text, contentType, body, headers } = answer;
  if (status !== 200) return `${target} is refused: ${status} ${text.slice(0, 120)}`;
  const coding = headerText(headers, 'content-encoding') ?? 'identity';
  if (coding !== 'identity') return `${target} is compressed, which was not asked for`;
  if (contentType !== '' && !/^(application|text)\/json\b/i.test(contentType)) {
    return `${target} is of type ${contentType}`;
  }
  if (!isUtf8(body)) return `${target} is not UTF-8`;
  if (answer.json === undefined) return `${target} is not JSON: ${text.slice(0, 120)}`;
  const payload = payloadOf(name, answer);
  if (payload === undefined) return `${target} is no success: ${text.slice(0, 120)}`;
  const [wrong] = lookAtPayload(PAYLOADS[name], payload).faults;
  const fault = wrong ?? (asked && faultOfRepeated(name, payload, asked));
  return fault === undefined ? undefined : `${target}: ${fault}`;
}

/**
 * What the client's reader makes of an answer; throws what it throws. Also where the answer is not the
 * contract's: enough to choose what to look at, and no judgement.
 */
export function readReplyOf<N extends EndpointName>(
  name: N,
  { status, headers, body }: Answer,
): ParsedPayload<ResultOf<N>> {
  const endpoint = endpoints[name] as unknown as Endpoint<Endpoint['params'], ResultOf<N>>;
  const isSigned = endpoint.access === 'private';
  const own = { dialect: 'contract', secrets: [], retryAfterMs: undefined } as const;
  const question = { name, endpoint, isSigned, ...own };
  return readReply(question, { status, headers, body });
}

/**
 * Holds what the client read against what the server told.
 *
 * @throws SideError which names the side: whatever is good by the tables must be read, wholly and
 *   unchanged
 */
export function checkReading<N extends EndpointName>(
  name: N,
  answer: Answer,
  { data, rejected }: ParsedPayload<ResultOf<N>>,
  asked?: Row,
): ResultOf<N> {
  const fault = faultOfServer(name, answer, asked);
  const [first] = rejected;
  if (first !== undefined) {
    if (fault !== undefined) throw new SideError('server', fault);
    throw new SideError('client', `${answer.target}: row ${first.at} is refused: ${first.reason}`);
  }
  // The client reads more than the contract has. That is no excuse for the server.
  if (fault !== undefined) throw new SideError('server', fault);
  const payload = payloadOf(name, answer);
  const isEmptyMap = PAYLOADS[name].kind === 'byName' && Array.isArray(payload);
  const difference = firstDifference(PAYLOADS[name], isEmptyMap ? {} : payload, data);
  if (difference !== undefined) throw new SideError('client', `${answer.target}: ${difference}`);
  return data;
}

/** The failure of a client that could not read: the server's where the answer itself is wrong. */
export function blameFor(
  name: EndpointName,
  answer: Answer,
  error: unknown,
  asked?: Row,
): SideError {
  const fault = faultOfServer(name, answer, asked);
  if (fault !== undefined) return new SideError('server', fault);
  return new SideError('client', `${answer.target} cannot be read: ${messageOf(error)}`);
}

/**
 * The rows of an answer, read as the typed client does.
 *
 * @throws SideError when they cannot be read, or are not read as they were told
 */
export function readByClient<N extends EndpointName>(name: N, answer: Answer): ResultOf<N> {
  let reading: ParsedPayload<ResultOf<N>>;
  try {
    reading = readReplyOf(name, answer);
  } catch (error) {
    throw blameFor(name, answer, error);
  }
  return checkReading(name, answer, reading);
}

/** The code that the client's error must have; undefined where the contract does not say. */
function dueCode({ status, json, text }: Answer): string | undefined {
  const body = (typeof json === 'object' && json !== null ? json : {}) as Record<string, unknown>;
  const { message } = body;
  if (text.trimStart().startsWith('<')) return 'unexpected_page';
  if (status === 404 && !('success' in body)) return 'not_found';
  if (status !== 400 || body.success !== false) return undefined;
  if (typeof message === 'object' && message !== null) {
    return 'market' in message ? 'market_unavailable' : 'field_errors';
  }
  return Object.entries(ERROR_CODES).find(([told]) => told === message)?.[1];
}

/** A refusal must become the client's error for it, never rows. */
export function judgeRefusalReading(name: EndpointName, answer: Answer, findings: Findings): void {
  let code: string;
  try {
    readReplyOf(name, answer);
    code = 'none';
  } catch (error) {
    code = codeOf(error);
  }
  const due = dueCode(answer);
  const isRight = due === undefined ? code !== 'none' : code === due;
  const wanted = due ?? 'an error';
  const told = `${answer.target} gave ${answer.status} ${answer.text.slice(0, 80)}`;
  findings.check(isRight, `${told}: read as ${code}, not ${wanted}`, 'client');
}
