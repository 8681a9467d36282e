import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { z } from 'zod';
import { errorEnvelope, successEnvelope } from '../../contract/error-shapes.js';
import { refusalOf } from '../../contract/shape.js';
import { isFromOtherSite, isLocalHost } from '../../kernel/connections.js';
import { messageOf, TapekeepError } from '../../kernel/errors.js';
import { parseJson } from '../../kernel/json.js';
import { isEncoded, JSON_TYPE } from '../http/replies.js';

/** Everything below this path steers the served exchange; it is outside the contract. */
export const CONTROL_PREFIX = '/sandbox/';
/** Control of a served exchange that plays a recording. */
export const REPLAY_PREFIX = '/replay/';

/** Returns true if a path steers the served exchange instead of being a part of it. */
export function isControlPath(path: string): boolean {
  return path.startsWith(CONTROL_PREFIX) || path.startsWith(REPLAY_PREFIX);
}

export function refuse(reply: FastifyReply, status: number, message: string): FastifyReply {
  return reply
    .status(status)
    .type(JSON_TYPE)
    .send(JSON.stringify(errorEnvelope(status, message)));
}

/** @throws SyntaxError when the body is not JSON, or not sent as it is */
export function readJson(request: FastifyRequest): unknown {
  const { 'content-encoding': coding } = request.headers;
  if (isEncoded(request.headers)) {
    throw new SyntaxError(
      `Content-Encoding ${String(coding)} is not allowed; send the body as it is`,
    );
  }
  const text = Buffer.isBuffer(request.body) ? request.body.toString('utf8') : '';
  if (text === '') throw new SyntaxError('the body is empty; expected JSON');
  return parseJson(text);
}

/** The body of a control request cannot be used. */
export class ControlError extends TapekeepError {
  constructor(message: string) {
    super('control_body_invalid', message);
  }
}

/**
 * The JSON of a body as a schema reads it.
 *
 * @param empty what an empty body stands for; left out, there must be one
 * @throws ControlError naming the key, its value and what is expected, or SyntaxError
 */
export function readBody<S extends z.ZodType>(
  request: FastifyRequest,
  schema: S,
  empty?: object,
): z.output<S> {
  const isEmpty = !Buffer.isBuffer(request.body) || request.body.length === 0;
  const body = isEmpty && empty !== undefined ? empty : readJson(request);
  const { data, error } = schema.safeParse(body);
  if (error !== undefined) throw new ControlError(refusalOf(error, body));
  return data;
}

/**
 * Refuses what a web page may have sent. Browsers let pages send to any address, this machine's own
 * included, and read what comes from a name of their own: who opened the page asked for nothing here.
 */
function refuseWebPages(request: FastifyRequest, reply: FastifyReply, done: () => void): void {
  const { host, origin } = request.headers;
  if (host !== undefined && !isLocalHost(host)) {
    const shown = JSON.stringify(host.slice(0, 100));
    const message = `the host ${shown} is not known here; ask by address, localhost or a name without a dot`;
    refuse(reply, 403, message);
    return;
  }
  if (origin !== undefined || isFromOtherSite(request.headers)) {
    const message = 'requests of web pages are refused (headers Origin, Sec-Fetch-Site)';
    refuse(reply, 403, message);
    return;
  }
  done();
}

/**
 * Adds routes whose handlers return the result to show; text and bytes are sent as they are. An
 * error that says what was wrong with what was asked for is answered 400, one that waiting repairs
 * 503, all others as those of any route.
 */
export function addControlRoutes(app: FastifyInstance, add: (app: FastifyInstance) => void): void {
  app.register((control, _options, done) => {
    control.addHook('onRequest', refuseWebPages);
    control.addHook('preSerialization', (_request, _reply, result, next) => {
      next(null, successEnvelope(result));
    });
    control.setErrorHandler((error, _request, reply) => {
      if (!(error instanceof SyntaxError || error instanceof TapekeepError)) throw error;
      const isToRepeat = error instanceof TapekeepError && error.action === 'retry';
      return refuse(reply, isToRepeat ? 503 : 400, messageOf(error));
    });
    add(control);
    done();
  });
}
