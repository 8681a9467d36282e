import type { ServerResponse } from 'node:http';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { type Clock, startDeadline, unlessAborted } from '../../kernel/clock.js';
import { AbortedError, TapekeepError } from '../../kernel/errors.js';
import type { LoopShare } from '../../kernel/loop-share.js';
import { type Live, topicsOf } from '../live.js';
import {
  ENDPOINTS,
  type Endpoint,
  type EndpointName,
  type Handlers,
  type Role,
} from './endpoints.js';
import { FORMAT_TYPES, formatOf, tableStream } from './formats.js';
import { FORMAT_PARAMETER, readInput } from './input.js';
import { openApiDocument } from './openapi.js';
import { Refusal } from './refusal.js';

/** Path under which the endpoints are. */
export const API_PATH = '/api/v1';

export interface ApiOptions {
  /** One that is missing is answered 501. */
  readonly handlers: Partial<Handlers>;
  readonly clock: Clock;
  /** Bounds the part of the event loop that answers take. */
  readonly share: LoopShare;
}

/** Longest that a handler works. */
const WORK_LIMIT_MS = 30_000;
/** A reader of a loaded machine gets a late answer rather than none. */
const SHARE_WAIT_MS = 30_000;
/** Room for a statement of SQL, or for the ids of some thousand gaps. */
const BODY_MAX = 512 * 1024;

const EVENTS_TYPE = 'text/event-stream; charset=utf-8';
/** A stream without any write for so long is dead: heartbeats are more frequent. */
const EVENTS_IDLE_MS = 60_000;

type Handler = (input: unknown, signal: AbortSignal, role: Role) => Promise<object>;

/** Memory of answers that are written and not read yet. */
const UNREAD_BYTES_MAX = 64 * 1_048_576;
/** Charged for a table that is written while it is read: the most that a statement may bring. */
const TABLE_BYTES = 16 * 1_048_576;

/** Counts answers that wait for their readers, so that readers who do not read cannot use up the memory. */
class Unread {
  #bytes = 0;

  /** @throws Refusal while too much waits */
  refuseMore(): void {
    if (this.#bytes < UNREAD_BYTES_MAX) return;
    const text = `answers of ${UNREAD_BYTES_MAX / 1_048_576} MB wait for their readers; read them, or ask again later`;
    throw new Refusal(503, text, 5);
  }

  /** Counts an answer until its response ends. @param bytes of a text; where left out, of a table */
  hold(response: ServerResponse, bytes = TABLE_BYTES): void {
    this.#bytes += bytes;
    response.once('close', () => {
      this.#bytes -= bytes;
    });
  }
}

/** Waits until the share has time. @throws Refusal where it takes too long */
export async function untilShare(share: LoopShare): Promise<void> {
  // The first of those that wait may have used it up.
  while (!share.isFree) {
    if (await share.untilFree(SHARE_WAIT_MS)) continue;
    throw new Refusal(503, 'more is asked for than there is time for; ask less often', 5);
  }
}

/** Signal that aborts when the client is gone, or after the time limit. */
function deadlineOf({ raw }: FastifyReply, clock: Clock) {
  const gone = new AbortController();
  raw.once('close', () => gone.abort(new AbortedError('the client is gone')));
  const late = () =>
    new TapekeepError('status_timeout', `no answer within ${WORK_LIMIT_MS / 1000} s`);
  return startDeadline(clock, WORK_LIMIT_MS, late, gone.signal);
}

function readRequest(request: FastifyRequest, { method, input, formats = [] }: Endpoint) {
  const { searchParams: query } = new URL(request.url, 'http://localhost');
  const wanted = formats.length === 0 ? null : query.get(FORMAT_PARAMETER);
  if (formats.length > 0) query.delete(FORMAT_PARAMETER);
  const format = formatOf(formats, wanted, request.headers.accept);
  const body = method === 'post' ? (request.body ?? null) : undefined;
  const params = request.params as Record<string, string>;
  return { format, input: readInput(input, { query, params, body }) };
}

/** Answers one endpoint at one path. */
function addEndpoint(
  app: FastifyInstance,
  name: EndpointName,
  url: string,
  { handlers, clock, share }: ApiOptions,
  unread: Unread,
): void {
  const endpoint: Endpoint = ENDPOINTS[name];
  app.route({
    method: endpoint.method.toUpperCase(),
    url: url.replaceAll(/\{(\w+)\}/g, ':$1'),
    ...(endpoint.method === 'post' && { bodyLimit: BODY_MAX }),
    config: { name: `api/${name}`, needs: endpoint.role },
    async handler(request, reply) {
      const handler = handlers[name] as Handler | undefined;
      const { format, input } = readRequest(request, endpoint);
      if (handler === undefined) {
        return reply.code(501).send({ error: `${name} is not served by this version` });
      }
      const role = request.caller === 'viewer' ? 'viewer' : 'operator';
      using deadline = deadlineOf(reply, clock);
      const { signal } = deadline;
      unread.refuseMore();
      await unlessAborted(signal, untilShare(share));
      const answer = await unlessAborted(
        signal,
        share.spend(() => handler(input, signal, role)),
      );
      void reply.type(FORMAT_TYPES[format]);
      if (format === 'json') {
        const text = share.spend(() => JSON.stringify(answer));
        unread.hold(reply.raw, text.length);
        return reply.send(text);
      }
      unread.hold(reply.raw);
      if ('isCut' in answer) void reply.header('x-is-cut', String(answer.isCut));
      return reply.send(tableStream(answer, endpoint.rows ?? '', format));
    },
  });
}

/** Adds the stream of events, as Server-Sent Events. */
export function addEvents(app: FastifyInstance, live: Live): void {
  app.get(`${API_PATH}/events`, { config: { name: 'api/events' } }, async (request, reply) => {
    const { searchParams } = new URL(request.url, 'http://localhost');
    const other = [...searchParams.keys()].find((name) => name !== 'topics');
    if (other !== undefined) {
      throw new Refusal(400, `unknown parameter ${JSON.stringify(other)}; known is topics`);
    }
    const topics = topicsOf(searchParams.getAll('topics'));
    if (request.method === 'HEAD') return reply.type(EVENTS_TYPE).send('');
    live.refuseMore(topics);
    reply.hijack();
    const { raw } = reply;
    raw.socket?.setTimeout(EVENTS_IDLE_MS);
    raw.writeHead(200, {
      ...(reply.getHeaders() as Record<string, string>),
      'content-type': EVENTS_TYPE,
      'x-accel-buffering': 'no',
    });
    live.listen(raw, topics);
    return reply;
  });
}

/** Adds the description of the API. */
export function addDescription(app: FastifyInstance, version: string): void {
  let text: string | undefined;
  app.get(`${API_PATH}/openapi.json`, { config: { name: 'api/openapi' } }, (_request, reply) => {
    text ??= JSON.stringify(openApiDocument(version));
    return reply.type(FORMAT_TYPES.json).send(text);
  });
}

/** Adds every endpoint of the table below `/api/v1`, and the document of status at its first path. */
export function addApi(app: FastifyInstance, options: ApiOptions): void {
  const unread = new Unread();
  for (const name of Object.keys(ENDPOINTS) as EndpointName[]) {
    addEndpoint(app, name, API_PATH + ENDPOINTS[name].path, options, unread);
  }
  addEndpoint(app, 'status', ENDPOINTS.status.path, options, unread);
}
