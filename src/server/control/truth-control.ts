import type { FastifyInstance, FastifyReply } from 'fastify';
import { z } from 'zod';
import { refusalOf } from '../../contract/shape.js';
import { SECOND_US } from '../../kernel/durations.js';
import type { Backend, BackendTrade } from '../backend.js';
import { readQuery } from '../http/request.js';
import { CONTROL_PREFIX, refuse } from './control-replies.js';

/** Most trades of one reply; as lines of JSON they are about 1.3 MB. */
const PAGE_MAX = 10_000;

/** A parameter of a query; an empty one is not given. */
function given<S extends z.ZodType>(schema: S) {
  return z.preprocess((text) => (text === '' ? undefined : text), schema.optional());
}

const SECONDS_FORM = { error: 'UNIX seconds, with at most six decimal places' };
const seconds = z
  .string()
  .regex(/^\d{1,12}(\.\d{1,6})?$/, SECONDS_FORM)
  .transform((text) => Math.round(Number(text) * SECOND_US));
const whole = (error: string, min: number, max: number) =>
  z
    .string()
    .regex(/^\d{1,16}$/, { error })
    .transform(Number)
    .refine((value) => value >= min && value <= max, { error });

const QUERY = z
  .object({
    market: z.string().default(''),
    from: given(seconds),
    to: given(seconds),
    /** Only trades with a greater id. */
    after: given(whole('the id of a trade', 0, Number.MAX_SAFE_INTEGER)),
    limit: given(whole(`a whole number from 1 to ${PAGE_MAX}`, 1, PAGE_MAX)),
  })
  .refine(({ from = Number.NEGATIVE_INFINITY, to = Number.POSITIVE_INFINITY }) => from < to, {
    path: ['from'],
    error: 'a time before "to"',
  });
type TruthQuery = z.output<typeof QUERY>;

interface TruthPage {
  readonly lines: string;
  /** The last trade of the page when there are more. */
  readonly last: BackendTrade | undefined;
}

/** Within one tick: trades could be forgotten in between. */
function readPage(backend: Backend, query: TruthQuery): TruthPage {
  const { market, from = Number.NEGATIVE_INFINITY, to = Number.POSITIVE_INFINITY } = query;
  const { after = -1, limit = PAGE_MAX } = query;
  const lines: string[] = [];
  let last: BackendTrade | undefined;
  for (const trade of backend.truth?.(market, from) ?? []) {
    if (trade.timeUs >= to) break;
    if (trade.id <= after) continue;
    if (lines.length === limit) return { lines: lines.join(''), last };
    lines.push(`${JSON.stringify(trade)}\n`);
    last = trade;
  }
  return { lines: lines.join(''), last: undefined };
}

function linkNext(
  reply: FastifyReply,
  { market, to, limit = PAGE_MAX }: TruthQuery,
  last: BackendTrade,
): void {
  const next = new URLSearchParams({
    market,
    from: (last.timeUs / SECOND_US).toFixed(6),
    ...(to === undefined ? {} : { to: (to / SECOND_US).toFixed(6) }),
    after: String(last.id),
    limit: String(limit),
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
    if (backend.truth === undefined) return refuse(reply, 404, 'this exchange keeps no truth');
    const asked = readQuery(request.raw.url ?? '');
    const written = asked.kind === 'read' ? { ...asked.values } : {};
    const { data: query, error } = QUERY.safeParse(written);
    if (error !== undefined) return refuse(reply, 400, refusalOf(error, written));
    const { lines, last } = readPage(backend, query);
    if (last !== undefined) linkNext(reply, query, last);
    return reply.type('application/x-ndjson').send(Buffer.from(lines));
  });
}
