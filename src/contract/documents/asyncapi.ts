import { z } from 'zod';
import {
  type MethodRow,
  newestTrades,
  REALTIME_ERRORS,
  type RealtimeMethod,
  type RealtimeWords,
  realtimeMethods,
  realtimeRequest,
  STATE_UPDATE,
  stateMarkets,
  tradeMarkets,
  updateRecord,
} from '../realtime.js';
import { historyTrade, stateRecord } from '../resources.js';
import { nameText } from '../values.js';
import { DEFAULT_VARIANTS, type ServerVariants } from '../variants.js';
import { type JsonObject, objectOf, SchemaBook } from './json-schema.js';
import type { DocumentOptions } from './openapi.js';

const CHANNEL = 'marketStatus';
const ERROR_MESSAGE = 'error';
const requestId = realtimeRequest.shape.id.describe('Chosen by the client; the answer repeats it');

/** How the described server speaks. */
export interface Speech {
  /** Its dialect's words. */
  readonly words: RealtimeWords;
  readonly variants: Pick<
    ServerVariants,
    'dialect' | 'subscribeForm' | 'updateShape' | 'tradeFeed' | 'historyTotal'
  >;
}

/** A method that clients call: its key in the document, and its word on the wire. */
interface Call extends MethodRow {
  readonly key: string;
  readonly word: string;
}

/** `state.query` as a name for keys: `stateQuery`. */
function keyOf(method: string): string {
  return method.replace(/\.(\w)/g, (_dot, letter: string) => letter.toUpperCase());
}

function callsOf({ words, variants }: Speech): Call[] {
  const { methods = {}, trades } = words;
  const isList = variants.subscribeForm === 'markets';
  const calls = (Object.keys(realtimeMethods) as RealtimeMethod[]).map((method): Call => {
    const row: Call = {
      ...realtimeMethods[method],
      ...{ key: keyOf(method), word: methods[method] ?? method },
    };
    if (!isList || method !== 'state.subscribe') return row;
    return { ...row, params: stateMarkets, summary: 'Follow the status of markets over a day' };
  });
  if (trades === undefined || variants.tradeFeed === 'none') return calls;
  const { subscribe, request } = trades;
  calls.push({
    ...{ key: 'tradesSubscribe', word: subscribe, params: tradeMarkets, echoesParams: false },
    ...{
      summary: 'Follow the trades of markets',
      result: realtimeMethods['state.subscribe'].result,
    },
  });
  if (request !== undefined) {
    calls.push({
      ...{ key: 'tradesRequest', word: request, params: newestTrades, echoesParams: false },
      ...{ summary: 'The newest trades of one market', result: pushedTrades(variants) },
    });
  }
  return calls;
}

/** Trades as they are pushed: those of `history`, some without a total. */
function pushedTrades({ historyTotal }: Speech['variants']) {
  return z.array(historyTotal === 'sent' ? historyTrade : historyTrade.omit({ total: true }));
}

function requestMessage({ word, params, summary }: Call, book: SchemaBook): JsonObject {
  const payload = { method: { const: word }, params: book.of(params), id: book.of(requestId) };
  return { name: word, title: `${word} request`, summary, payload: objectOf(payload) };
}

function responseMessage({ word, params, result, echoesParams }: Call, book: SchemaBook) {
  const payload = {
    id: book.of(requestId),
    params: book.of(echoesParams ? params : z.tuple([])),
    result: book.of(result),
    error: { type: 'null' },
  };
  return { name: word, title: `${word} response`, payload: objectOf(payload) };
}

function errorMessage(book: SchemaBook): JsonObject {
  const kinds = Object.values(REALTIME_ERRORS).map(({ code, message }) =>
    objectOf({ code: { const: code }, message: { const: message } }),
  );
  const payload = {
    id: book.of(requestId),
    params: { type: 'array' },
    result: { type: 'null' },
    error: { oneOf: kinds },
  };
  return { name: ERROR_MESSAGE, title: 'Refusal of a request', payload: objectOf(payload) };
}

/** A notification: its key in the document, its message, and when it is sent. */
interface Push {
  readonly key: string;
  readonly message: JsonObject;
  readonly when: string;
}

function notification(name: string, summary: string, params: JsonObject): JsonObject {
  const payload = { method: { const: name }, params, id: { type: 'null' } };
  return { name, title: name, summary, payload: objectOf(payload) };
}

function pushesOf({ words, variants }: Speech, calls: readonly Call[], book: SchemaBook): Push[] {
  const summary = 'The status of a subscribed market has changed';
  const word = words.methods?.[STATE_UPDATE] ?? STATE_UPDATE;
  const { subscribeForm, updateShape } = variants;
  const isNamed = updateShape === 'family' || subscribeForm === 'markets';
  const record = subscribeForm === 'markets' ? stateRecord : stateRecord.omit({ period: true });
  const bare = { result: book.of(updateRecord), error: { type: 'null' }, id: { type: 'null' } };
  const ofState = isNamed
    ? notification(word, summary, book.of(z.tuple([nameText, record])))
    : { name: word, title: word, summary, payload: objectOf(bare) };
  const subscription = calls.find(({ key }) => key === 'stateSubscribe')?.word;
  const pushes: Push[] = [
    {
      ...{ key: keyOf(STATE_UPDATE), message: ofState },
      when: `Sent after a successful ${subscription}, whenever something changed`,
    },
  ];
  const { trades } = words;
  if (trades === undefined || variants.tradeFeed === 'none') return pushes;
  const rows = book.of(z.tuple([nameText, pushedTrades(variants)]));
  const message = notification(trades.update, 'Trades of a subscribed market happened', rows);
  const when = `Sent after a successful ${trades.subscribe}, for each trade once`;
  return [...pushes, { key: 'tradesUpdate', message, when }];
}

const channel = { $ref: `#/channels/${CHANNEL}` };
const inChannel = (message: string) => ({ $ref: `#/channels/${CHANNEL}/messages/${message}` });

function operationsOf(calls: readonly Call[], pushes: readonly Push[]): JsonObject {
  const operations: JsonObject = {};
  for (const { key, summary } of calls) {
    const replies = [inChannel(`${key}Response`), inChannel(ERROR_MESSAGE)];
    operations[key] = {
      action: 'receive',
      ...{ channel, summary, messages: [inChannel(`${key}Request`)] },
      reply: { channel, messages: replies },
    };
  }
  for (const { key, when } of pushes) {
    operations[key] = { action: 'send', channel, summary: when, messages: [inChannel(key)] };
  }
  return operations;
}

/** The `servers` of a document for the WebSocket at `serverUrl`. */
export function realtimeServers(serverUrl: string): JsonObject {
  const { host, pathname, protocol } = new URL(serverUrl);
  return { exchange: { host, pathname, protocol: protocol.slice(0, -1) } };
}

/** The contract as it is written. */
const CONTRACT: Speech = { words: {}, variants: DEFAULT_VARIANTS };

/**
 * The real-time interface as an AsyncAPI 3.0 document, seen from the exchange: it receives calls
 * and sends answers and updates. Made from the table of methods.
 *
 * @param options `serverUrl` is the address of the WebSocket, such as `wss://host/ws`
 * @param speech how the server departs from the contract; default: not at all
 */
export function asyncApiDocument(
  { version, serverUrl }: DocumentOptions,
  speech: Speech = CONTRACT,
): JsonObject {
  const book = new SchemaBook('draft-7');
  const calls = callsOf(speech);
  const messages: Record<string, JsonObject> = {};
  for (const call of calls) {
    messages[`${call.key}Request`] = requestMessage(call, book);
    messages[`${call.key}Response`] = responseMessage(call, book);
  }
  messages[ERROR_MESSAGE] = errorMessage(book);
  const pushes = pushesOf(speech, calls, book);
  for (const { key, message } of pushes) messages[key] = message;
  return {
    asyncapi: '3.0.0',
    info: {
      title: 'Spot exchange: real-time interface',
      version,
      description:
        'Status of markets over a WebSocket: one-time queries, and updates of one subscription ' +
        'per connection. Every frame is one JSON text.',
    },
    defaultContentType: 'application/json',
    ...(serverUrl === undefined ? {} : { servers: realtimeServers(serverUrl) }),
    channels: {
      [CHANNEL]: {
        address: '/',
        messages: Object.fromEntries(
          Object.keys(messages).map((name) => [name, { $ref: `#/components/messages/${name}` }]),
        ),
      },
    },
    operations: operationsOf(calls, pushes),
    components: { messages, schemas: book.named() },
  };
}
