import { Readable } from 'node:stream';
import type { FastifyInstance, FastifyReply } from 'fastify';
import { errorEnvelope, successEnvelope } from '../contract/error-shapes.js';
import { messageOf, TapekeepError } from '../kernel/errors.js';
import type { Backend, BackendTrade } from './backend.js';
import type { Interference, InterferenceControl } from './faults.js';
import { readQuery } from './query.js';

/** Everything below this path steers the served exchange; it is outside the contract. */
export const CONTROL_PREFIX = '/sandbox/';

/** A backend that can tell everything it ever issued. */
export interface TruthTeller {
  /** Every trade of a known market until now, oldest first, also those not served any more. */
  truth(market: string): Iterable<BackendTrade> | AsyncIterable<BackendTrade>;
}

function tellsTruth(backend: Backend): backend is Backend & TruthTeller {
  return typeof (backend as Partial<TruthTeller>).truth === 'function';
}

function send(reply: FastifyReply, status: number, body: object): FastifyReply {
  const text = JSON.stringify(body);
  return reply.status(status).type('application/json; charset=utf-8').send(text);
}

const refuse = (reply: FastifyReply, status: number, message: string) =>
  send(reply, status, errorEnvelope(status, message));

/** Lines are sent in pieces of about this many characters. */
const PIECE_LENGTH = 64 * 1024;

async function* truthLines(
  trades: Iterable<BackendTrade> | AsyncIterable<BackendTrade>,
  fromUs: number,
  toUs: number,
) {
  let piece = '';
  for await (const trade of trades) {
    if (trade.timeUs < fromUs || trade.timeUs >= toUs) continue;
    piece += `${JSON.stringify(trade)}\n`;
    if (piece.length < PIECE_LENGTH) continue;
    yield piece;
    piece = '';
  }
  if (piece !== '') yield piece;
}

/** UNIX seconds of a query as microseconds; `fallback` when it is not given, NaN when misspelt. */
function readSeconds(text: string | undefined, fallback: number): number {
  if (text === undefined || text === '') return fallback;
  return /^\d{1,12}(\.\d{1,6})?$/.test(text) ? Math.round(Number(text) * 1e6) : Number.NaN;
}

function addTruth(app: FastifyInstance, backend: Backend): void {
  app.get(`${CONTROL_PREFIX}truth`, (request, reply) => {
    if (!tellsTruth(backend)) return refuse(reply, 404, 'this exchange keeps no truth');
    const query = readQuery(request.raw.url ?? '');
    const { market = '', from, to } = query.kind === 'read' ? query.values : {};
    if (!backend.hasMarket(market)) {
      return refuse(reply, 400, `market "${market}" is not one of this exchange`);
    }
    const fromUs = readSeconds(from, Number.NEGATIVE_INFINITY);
    const toUs = readSeconds(to, Number.POSITIVE_INFINITY);
    if (Number.isNaN(fromUs) || Number.isNaN(toUs)) {
      return refuse(reply, 400, 'from and to are UNIX seconds, with at most six decimal places');
    }
    const lines = Readable.from(truthLines(backend.truth(market), fromUs, toUs));
    return reply.type('application/x-ndjson').send(lines);
  });
}

/** Largest fault script, bytes. */
const SCRIPT_MAX_BYTES = 256 * 1024;

function addFaults(app: FastifyInstance, control: InterferenceControl): void {
  const path = `${CONTROL_PREFIX}faults`;
  const show = (reply: FastifyReply) => send(reply, 200, successEnvelope(control.describe()));
  app.get(path, (_request, reply) => show(reply));
  app.delete(path, (_request, reply) => {
    control.clear();
    return show(reply);
  });
  app.put(path, { bodyLimit: SCRIPT_MAX_BYTES }, (request, reply) => {
    try {
      control.replace(JSON.parse(Buffer.isBuffer(request.body) ? request.body.toString() : ''));
    } catch (error) {
      if (error instanceof SyntaxError || error instanceof TapekeepError) {
        return refuse(reply, 400, messageOf(error));
      }
      throw error;
    }
    return show(reply);
  });
}

interface SteeredServer {
  readonly backend: Backend;
  readonly interference?: Interference;
  readonly control?: boolean;
}

/**
 * The paths that steer the served exchange: `/sandbox/faults` to read (GET), replace (PUT) and end
 * (DELETE) what goes wrong, and `/sandbox/truth?market=…&from=…&to=…` for every trade ever issued
 * in `[from, to)`, UNIX seconds, one JSON object a line. Without `control` there are none of them.
 */
export function addControl(app: FastifyInstance, server: SteeredServer): void {
  if (server.control !== true) return;
  addTruth(app, server.backend);
  const control = server.interference?.control;
  if (control !== undefined) addFaults(app, control);
}
