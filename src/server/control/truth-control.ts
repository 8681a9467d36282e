import type { FastifyInstance, FastifyReply } from 'fastify';
import type { Backend, BackendTrade } from '../backend.js';
import { readQuery } from '../http/request.js';
import { CONTROL_PREFIX, refuse, refuseFor } from './control-replies.js';

/** A backend that can list everything it ever issued. */
export interface TruthSource {
  /**
   * Every trade of a market until now and from a time (UNIX microseconds) on, oldest first, also
   * those not served any more, and of markets that are gone. Read at once.
   *
   * @throws TapekeepError when there never was such a market, or not all of it is known any more
   */
  truth(market: string, fromUs: number): Iterable<BackendTrade>;
}

/** Most trades of one reply; as lines of JSON they are about 1.3 MB. */
const PAGE_MAX = 10_000;
const US_PER_S = 1_000_000;

interface TruthQuery {
  readonly market: string;
  readonly fromUs: number;
  readonly toUs: number;
  /** Only trades with a greater id. */
  readonly after: number;
  readonly limit: number;
}

interface TruthPage {
  readonly lines: string;
  /** The last trade of the page when there are more. */
  readonly last: BackendTrade | undefined;
}

function hasTruth(backend: Backend): backend is Backend & TruthSource {
  return typeof (backend as Partial<TruthSource>).truth === 'function';
}

/** UNIX seconds of a query as microseconds; `fallback` when it is not given, NaN when misspelt. */
function readSeconds(text: string | undefined, fallback: number): number {
  if (text === undefined || text === '') return fallback;
  return /^\d{1,12}(\.\d{1,6})?$/.test(text) ? Math.round(Number(text) * US_PER_S) : Number.NaN;
}

function readWhole(text: string | undefined, fallback: number): number {
  if (text === undefined || text === '') return fallback;
  return /^\d{1,16}$/.test(text) ? Number(text) : Number.NaN;
}

/** Reads a query, or says what is wrong with it. */
function readTruthQuery(target: string): TruthQuery | string {
  const query = readQuery(target);
  const { market = '', from, to, after, limit } = query.kind === 'read' ? query.values : {};
  const read = {
    market,
    fromUs: readSeconds(from, Number.NEGATIVE_INFINITY),
    toUs: readSeconds(to, Number.POSITIVE_INFINITY),
    after: readWhole(after, -1),
    limit: readWhole(limit, PAGE_MAX),
  };
  if (Number.isNaN(read.fromUs) || Number.isNaN(read.toUs)) {
    return `from ${from ?? ''} to ${to ?? ''} is not allowed: from and to are UNIX seconds, with at most six decimal places`;
  }
  if (!Number.isSafeInteger(read.after)) {
    return `after ${after ?? ''} is not allowed: expected the id of a trade`;
  }
  if (!(read.limit >= 1 && read.limit <= PAGE_MAX)) {
    return `limit ${limit ?? ''} is not allowed: expected a whole number from 1 to ${PAGE_MAX}`;
  }
  return read;
}

/** Within one tick: trades could be forgotten in between. */
function readPage(source: TruthSource, query: TruthQuery): TruthPage {
  const { market, fromUs, toUs, after, limit } = query;
  const lines: string[] = [];
  let last: BackendTrade | undefined;
  for (const trade of source.truth(market, fromUs)) {
    if (trade.timeUs >= toUs) break;
    if (trade.id <= after) continue;
    if (lines.length === limit) return { lines: lines.join(''), last };
    lines.push(`${JSON.stringify(trade)}\n`);
    last = trade;
  }
  return { lines: lines.join(''), last: undefined };
}

function linkNext(reply: FastifyReply, query: TruthQuery, last: BackendTrade): void {
  const next = new URLSearchParams({
    market: query.market,
    from: (last.timeUs / US_PER_S).toFixed(6),
    ...(query.toUs === Number.POSITIVE_INFINITY ? {} : { to: (query.toUs / US_PER_S).toFixed(6) }),
    after: String(last.id),
    limit: String(query.limit),
  });
  reply.header('link', `<${CONTROL_PREFIX}truth?${next.toString()}>; rel="next"`);
}

/**
 * `/sandbox/truth?market=…` for every trade ever issued, oldest first, one JSON object a line: in
 * `[from, to)`, UNIX seconds, with ids greater than `after`, at most `limit` of them. When there are
 * more, the header `Link` names the next page with `rel="next"`.
 */
export function addTruthControl(app: FastifyInstance, backend: Backend): void {
  app.get(`${CONTROL_PREFIX}truth`, (request, reply) => {
    if (!hasTruth(backend)) return refuse(reply, 404, 'this exchange keeps no truth');
    const query = readTruthQuery(request.raw.url ?? '');
    if (typeof query === 'string') return refuse(reply, 400, query);
    try {
      const { lines, last } = readPage(backend, query);
      if (last !== undefined) linkNext(reply, query, last);
      return reply.type('application/x-ndjson').send(Buffer.from(lines));
    } catch (error) {
      return refuseFor(reply, error);
    }
  });
}
