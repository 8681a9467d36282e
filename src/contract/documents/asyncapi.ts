import { z } from 'zod';
import {
  REALTIME_ERRORS,
  type RealtimeMethod,
  realtimeMethods,
  realtimeRequest,
  STATE_UPDATE,
  updateRecord,
} from '../realtime.js';
import { type JsonObject, objectOf, SchemaBook } from './json-schema.js';
import type { DocumentOptions } from './openapi.js';

const CHANNEL = 'marketStatus';
const ERROR_MESSAGE = 'error';
const methods = Object.keys(realtimeMethods) as RealtimeMethod[];
const requestId = realtimeRequest.shape.id.describe('Chosen by the client; the answer repeats it');

/** `state.query` as a name for keys: `stateQuery`. */
function keyOf(method: string): string {
  return method.replace(/\.(\w)/g, (_dot, letter: string) => letter.toUpperCase());
}

function requestMessage(method: RealtimeMethod, book: SchemaBook): JsonObject {
  const { params, summary } = realtimeMethods[method];
  const payload = { method: { const: method }, params: book.of(params), id: book.of(requestId) };
  return { name: method, title: `${method} request`, summary, payload: objectOf(payload) };
}

function responseMessage(method: RealtimeMethod, book: SchemaBook): JsonObject {
  const { params, result, echoesParams } = realtimeMethods[method];
  const payload = {
    id: book.of(requestId),
    params: book.of(echoesParams ? params : z.tuple([])),
    result: book.of(result),
    error: { type: 'null' },
  };
  return { name: method, title: `${method} response`, payload: objectOf(payload) };
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

function updateMessage(book: SchemaBook): JsonObject {
  return {
    name: STATE_UPDATE,
    title: STATE_UPDATE,
    summary: 'The status of the subscribed market has changed',
    payload: objectOf({
      result: book.of(updateRecord),
      error: { type: 'null' },
      id: { type: 'null' },
    }),
  };
}

function messagesOf(book: SchemaBook): Record<string, JsonObject> {
  const messages: Record<string, JsonObject> = {};
  for (const method of methods) {
    messages[`${keyOf(method)}Request`] = requestMessage(method, book);
    messages[`${keyOf(method)}Response`] = responseMessage(method, book);
  }
  messages[ERROR_MESSAGE] = errorMessage(book);
  messages[keyOf(STATE_UPDATE)] = updateMessage(book);
  return messages;
}

const channel = { $ref: `#/channels/${CHANNEL}` };
const inChannel = (message: string) => ({ $ref: `#/channels/${CHANNEL}/messages/${message}` });

function operations(): JsonObject {
  const calls = methods.map((method) => {
    const key = keyOf(method);
    const replies = [inChannel(`${key}Response`), inChannel(ERROR_MESSAGE)];
    return [
      key,
      {
        action: 'receive',
        channel,
        summary: realtimeMethods[method].summary,
        messages: [inChannel(`${key}Request`)],
        reply: { channel, messages: replies },
      },
    ];
  });
  const push = {
    action: 'send',
    channel,
    summary: 'Told after a successful state.subscribe, whenever something changed',
    messages: [inChannel(keyOf(STATE_UPDATE))],
  };
  return { ...(Object.fromEntries(calls) as JsonObject), [keyOf(STATE_UPDATE)]: push };
}

/** The `servers` of a document for the WebSocket at `serverUrl`. */
export function realtimeServers(serverUrl: string): JsonObject {
  const { host, pathname, protocol } = new URL(serverUrl);
  return { exchange: { host, pathname, protocol: protocol.slice(0, -1) } };
}

/**
 * The real-time interface as an AsyncAPI 3.0 document, seen from the exchange: it receives calls
 * and sends answers and updates. Made from the table of methods.
 *
 * @param options `serverUrl` is the address of the WebSocket, such as `wss://host/ws`
 */
export function asyncApiDocument({ version, serverUrl }: DocumentOptions): JsonObject {
  const book = new SchemaBook('draft-7');
  const messages = messagesOf(book);
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
    operations: operations(),
    components: { messages, schemas: book.named() },
  };
}
