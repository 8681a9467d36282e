import { type ServerResponse, STATUS_CODES } from 'node:http';
import { Readable } from 'node:stream';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { EndpointName } from '../../contract/endpoints.js';
import { type Clock, sleep } from '../../kernel/clock.js';
import { isAborted } from '../../kernel/errors.js';
import { parseJson } from '../../kernel/json.js';
import type { ServerContext } from '../context.js';
import type { HttpDelivery, HttpReply } from '../faults.js';
import { readQuery } from './request.js';

/** The market of a signed body; whatever cannot be read names none. */
function marketOfBody(body: string): unknown {
  try {
    return (parseJson(body) as { market?: unknown } | null)?.market;
  } catch {
    return undefined;
  }
}

function describeRequest(request: FastifyRequest) {
  const target = request.raw.url ?? '';
  const body = Buffer.isBuffer(request.body) ? request.body.toString('utf8') : '';
  const query = readQuery(target);
  const inQuery = query.kind === 'read' ? query.values.market : undefined;
  const market = request.method === 'GET' ? inQuery : marketOfBody(body);
  return {
    market: typeof market === 'string' ? market : undefined,
    request: `${request.method} ${target} ${body}`,
  };
}

function readReply(reply: FastifyReply, body: string): HttpReply {
  const headers = Object.entries(reply.getHeaders()).flatMap(([name, value]) =>
    value === undefined || name === 'content-length' ? [] : [[name, String(value)]],
  );
  return { status: reply.statusCode, headers: Object.fromEntries(headers), body };
}

function writeReply(reply: FastifyReply, { status, headers }: HttpReply): void {
  for (const name of Object.keys(reply.getHeaders())) {
    if (!(name in headers)) reply.removeHeader(name);
  }
  reply.status(status).headers(headers);
}

/** Aborts when the connection of a response has ended, or the response is complete. */
function goneSignal(response: ServerResponse): AbortSignal {
  const controller = new AbortController();
  if (response.destroyed) controller.abort();
  else response.once('close', () => controller.abort());
  return controller.signal;
}

/** Resolves when everything written so far was handed to the system. */
async function flushed({ socket }: ServerResponse): Promise<void> {
  // Node holds the first write of a response back for a tick, to send it with the headers.
  await new Promise<void>((resolve) => setImmediate(resolve));
  while (socket !== null && !socket.destroyed && socket.writableLength > 0) {
    await new Promise<void>((resolve) => {
      socket.once('drain', resolve);
      socket.once('close', resolve);
    });
  }
}

async function* cutBody(body: Buffer, afterBytes: number, response: ServerResponse) {
  response.flushHeaders();
  if (afterBytes > 0) yield body.subarray(0, afterBytes);
  await flushed(response);
  response.destroy();
}

interface Pace {
  readonly bytes: number;
  readonly pauseMs: number;
}

async function* dripBody(body: Buffer, pace: Pace, clock: Clock, gone: AbortSignal) {
  for (let at = 0; at < body.length; at += pace.bytes) {
    if (at > 0) await sleep(clock, pace.pauseMs, gone);
    yield body.subarray(at, at + pace.bytes);
  }
}

/**
 * Sends a whole reply past node, which writes headers in one piece: what comes before the body
 * slowly, the body at once. The connection ends with it.
 */
async function dripHead(
  reply: FastifyReply,
  body: Buffer,
  pace: Pace,
  clock: Clock,
  gone: AbortSignal,
): Promise<void> {
  const response = reply.raw;
  const headers = { ...reply.getHeaders(), 'content-length': body.length, connection: 'close' };
  const { statusCode } = reply;
  const lines = [
    `HTTP/1.1 ${statusCode} ${STATUS_CODES[statusCode] ?? 'Unknown'}`,
    ...Object.entries(headers).map(([name, value]) => `${name}: ${String(value)}`),
  ];
  const head = Buffer.from(`${lines.join('\r\n')}\r\n\r\n`);
  try {
    for await (const piece of dripBody(head, pace, clock, gone)) response.socket?.write(piece);
    response.socket?.write(body);
    await flushed(response);
  } catch (error) {
    if (!isAborted(error)) throw error;
  } finally {
    response.destroy();
  }
}

/** Does what was decided about one reply; returns what is left for the framework to send. */
async function deliver(
  { reply: sent, waitMs, ending }: HttpDelivery,
  reply: FastifyReply,
  clock: Clock,
): Promise<string | Readable> {
  const response = reply.raw;
  const gone = goneSignal(response);
  // A client that has left gets nothing; writing to the closed connection does no harm.
  const pause = (ms: number) => sleep(clock, ms, gone).catch(() => undefined);
  if (waitMs > 0) await pause(waitMs);
  writeReply(reply, sent);
  if (ending === undefined) return sent.body;
  const body = Buffer.from(sent.body);
  switch (ending.kind) {
    case 'hang':
      if (ending.ms !== undefined) await pause(ending.ms);
      else if (!gone.aborted) {
        await new Promise((resolve) => gone.addEventListener('abort', resolve, { once: true }));
      }
      response.destroy();
      return '';
    case 'reset':
      response.socket?.resetAndDestroy();
      return '';
    case 'cut':
      reply.header('content-length', String(body.length));
      return Readable.from(cutBody(body, Math.min(ending.afterBytes, body.length), response));
    case 'drip':
      if (ending.part === 'head') {
        await dripHead(reply, body, ending, clock, gone);
        return '';
      }
      reply.header('content-length', String(body.length));
      return Readable.from(dripBody(body, ending, clock, gone), { objectMode: false });
  }
}

/** Lets the server's interference decide about every reply of the contract's endpoints. */
export function addInterference(
  app: FastifyInstance,
  { interference, backend, clock }: ServerContext,
  endpointOfPath: ReadonlyMap<string, EndpointName>,
): void {
  if (interference === undefined) return;
  app.addHook('onSend', async (request, reply, payload: unknown) => {
    const endpoint = endpointOfPath.get(request.routeOptions.url ?? '');
    if (endpoint === undefined || typeof payload !== 'string') return payload;
    const asked = { endpoint, ...describeRequest(request), atMs: backend.nowMs() };
    const delivery = interference.reply(asked, readReply(reply, payload));
    return delivery === undefined ? payload : deliver(delivery, reply, clock);
  });
}
