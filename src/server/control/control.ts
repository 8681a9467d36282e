import type { FastifyInstance, FastifyRequest } from 'fastify';
import { z } from 'zod';
import { SESSION_HEADER } from '../../contract/extensions.js';
import { onlyKeys, refusalOf, show } from '../../contract/shape.js';
import { SECOND_US } from '../../kernel/durations.js';
import type { Backend, BackendTrade, ClockControl, MarketControl } from '../backend.js';
import type { ServerContext } from '../context.js';
import type { InterferenceControl } from '../faults.js';
import { readQuery } from '../http/request.js';
import {
  addControlRoutes,
  CONTROL_PREFIX,
  ControlError,
  REPLAY_PREFIX,
  readBody,
  readJson,
  refuse,
} from './control-replies.js';

/** The markets of a backend that gets no others; undefined where some may come. */
export function marketsForGood(backend: Backend): readonly string[] | undefined {
  if (backend.marketControl?.isOpen === true) return undefined;
  const markets = backend.markets();
  return markets instanceof Promise ? undefined : markets.map(({ name }) => name);
}

/**
 * The paths below `/sandbox/` that steer the served exchange and show its secrets, as far as it has
 * what they steer. Without `control` there are none of them; those of a recording, below `/replay/`,
 * then say so.
 */
export function addControl(server: FastifyInstance, context: ServerContext): void {
  const { backend, interference, control = false } = context;
  const { clockControl, marketControl } = backend;
  addControlRoutes(server, (app) => {
    if (clockControl !== undefined) addReplayControl(app, clockControl, control);
    if (!control) return;
    addTruthControl(app, backend);
    const faults = interference?.control;
    if (faults !== undefined) addFaultsControl(app, faults, () => marketsForGood(backend));
    if (marketControl !== undefined) addMarketsControl(app, marketControl);
  });
}

/** Largest fault script, bytes. */
const SCRIPT_MAX_BYTES = 256 * 1024;

/**
 * `/sandbox/faults` to read (GET), replace (PUT) and end (DELETE) what goes wrong. A script that is
 * not usable is refused, and the old one stays in force.
 *
 * @param markets those that rules may name; undefined where others may come
 */
function addFaultsControl(
  app: FastifyInstance,
  control: InterferenceControl,
  markets: () => readonly string[] | undefined,
): void {
  const path = `${CONTROL_PREFIX}faults`;
  app.get(path, () => control.describe());
  app.delete(path, () => {
    control.clear();
    return control.describe();
  });
  app.put(path, { bodyLimit: SCRIPT_MAX_BYTES }, (request) => {
    control.replace(readJson(request), markets());
    return control.describe();
  });
}

/** Largest description of a market, bytes. */
const MARKET_MAX_BYTES = 16 * 1024;
const text = z.string('a text, in quotes');
const MARKET = onlyKeys({ market: text });
const DEPOSIT = onlyKeys({ account: text, currency: text, amount: text });

/**
 * Markets and funds from outside, each a POST of JSON: `/sandbox/markets` lists a market, its paths
 * `/delist`, `/block` and `/unblock` end it and close or open it for orders, `/sandbox/deposits` gives
 * funds. GET of `/sandbox/markets` shows all markets with their states.
 */
function addMarketsControl(app: FastifyInstance, control: MarketControl): void {
  const markets = `${CONTROL_PREFIX}markets`;
  const add = (path: string, change: (request: FastifyRequest) => object) => {
    app.post(path, { bodyLimit: MARKET_MAX_BYTES }, change);
  };
  const marketOf = (request: FastifyRequest) => readBody(request, MARKET).market;
  app.get(markets, () => control.describe());
  add(markets, (request) => control.create(readJson(request)));
  add(`${markets}/delist`, (request) => control.delist(marketOf(request)));
  add(`${markets}/block`, (request) => control.block(marketOf(request), true));
  add(`${markets}/unblock`, (request) => control.block(marketOf(request), false));
  add(`${CONTROL_PREFIX}deposits`, (request) => {
    const { account, currency, amount } = readBody(request, DEPOSIT);
    return control.deposit(account, currency, amount);
  });
}

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

/**
 * `/sandbox/truth?market=…` for every trade ever issued, oldest first, one JSON object a line: in
 * `[from, to)`, UNIX seconds, with ids greater than `after`, at most `limit` of them. When there are
 * more, the header `Link` names the next page with `rel="next"`.
 */
function addTruthControl(app: FastifyInstance, backend: Backend): void {
  app.get(`${CONTROL_PREFIX}truth`, (request, reply) => {
    if (backend.truth === undefined) return refuse(reply, 404, 'this exchange keeps no truth');
    const asked = readQuery(request.raw.url ?? '');
    const written = asked.kind === 'read' ? { ...asked.values } : {};
    const { data: query, error } = QUERY.safeParse(written);
    if (error !== undefined) return refuse(reply, 400, refusalOf(error, written));
    const { market, from = Number.NEGATIVE_INFINITY, to, after = -1, limit = PAGE_MAX } = query;
    const page: BackendTrade[] = [];
    let hasMore = false;
    // Within one tick: trades could be forgotten in between.
    for (const trade of backend.truth(market, from)) {
      if (trade.timeUs >= (to ?? Number.POSITIVE_INFINITY)) break;
      if (trade.id <= after) continue;
      hasMore = page.length === limit;
      if (hasMore) break;
      page.push(trade);
    }
    const last = page.at(-1);
    if (hasMore && last !== undefined) {
      const next = new URLSearchParams({
        market,
        from: (last.timeUs / SECOND_US).toFixed(6),
        ...(to === undefined ? {} : { to: (to / SECOND_US).toFixed(6) }),
        after: String(last.id),
        limit: String(limit),
      });
      reply.header('link', `<${CONTROL_PREFIX}truth?${next.toString()}>; rel="next"`);
    }
    const lines = page.map((trade) => `${JSON.stringify(trade)}\n`).join('');
    return reply.type('application/x-ndjson').send(Buffer.from(lines));
  });
}

/** Largest body of a control request, bytes. */
const BODY_MAX_BYTES = 4 * 1024;
const SPEED_MAX = 100_000;
/** Longest single step: a year. */
const STEP_MAX_MS = 366 * 86_400_000;

const INSTANT_FORM = {
  error: 'a time such as 2026-01-31T12:00:00Z, or UNIX milliseconds',
};
const STEP_FORM = { error: `a whole number of milliseconds from 1 to ${STEP_MAX_MS}` };
const NOTHING = onlyKeys({});
const SEEK = onlyKeys({
  to: z.preprocess(
    (time) => (typeof time === 'string' ? Date.parse(time) : time),
    z.int(INSTANT_FORM),
  ),
});
const STEP = onlyKeys({
  ms: z.int(STEP_FORM).min(1, STEP_FORM).max(STEP_MAX_MS, STEP_FORM).optional(),
});
const SPEED = onlyKeys({
  speed: z.union([z.enum(['max', 'step']), z.number().gt(0).max(SPEED_MAX)], {
    error: `a number above 0 and up to ${SPEED_MAX}, "max" or "step"`,
  }),
});

/** @throws ControlError when it is not plain */
function readSession(request: FastifyRequest): string | undefined {
  const named =
    request.headers[SESSION_HEADER] ?? (request.query as Readonly<Record<string, unknown>>).session;
  if (named === undefined || typeof named === 'string') return named;
  throw new ControlError(`session ${show(named)} is not allowed; name one`);
}

function named(session: string | undefined, what: string): string {
  if (session !== undefined) return session;
  throw new ControlError(`name the session that is to ${what}`);
}

/**
 * The time of a served recording: GET of `/replay/clock` and `/replay/sessions` shows it, POST of
 * `/replay/pause`, `/resume`, `/seek` ({"to": time}), `/step` ({"ms": 1000}, or nothing for the next
 * recorded thing) and `/speed` ({"speed": 20}) changes it, POST of `/replay/sessions` makes the named
 * session, DELETE forgets it. Which session is meant says the header or the parameter by which clients name
 * it; one that was not made, by POST or by a client, is refused.
 *
 * @param isAllowed false: every one of them is refused with what to do about it
 */
function addReplayControl(
  server: FastifyInstance,
  control: ClockControl,
  isAllowed: boolean,
): void {
  server.register((app, _options, done) => {
    if (!isAllowed) {
      const message =
        'this replay is not to be steered from outside; start it with --control, or on a loopback address';
      app.addHook('preHandler', (_request, reply) => void refuse(reply, 403, message));
    }
    const post = <S extends z.ZodType>(
      name: string,
      schema: S,
      change: (session: string | undefined, body: z.output<S>) => object,
    ) => {
      app.post(REPLAY_PREFIX + name, { bodyLimit: BODY_MAX_BYTES }, (request) =>
        change(readSession(request), readBody(request, schema, {})),
      );
    };
    app.get(`${REPLAY_PREFIX}clock`, (request) => control.read(readSession(request)));
    app.get(`${REPLAY_PREFIX}sessions`, (request) => {
      readSession(request);
      return control.sessions();
    });
    app.delete(`${REPLAY_PREFIX}sessions`, (request) =>
      control.end(named(readSession(request), 'be forgotten; the shared one stays')),
    );
    post('sessions', NOTHING, (session) =>
      control.begin(named(session, 'begin; the shared one is always there')),
    );
    post('pause', NOTHING, (session) => control.pause(session));
    post('resume', NOTHING, (session) => control.resume(session));
    post('seek', SEEK, (session, { to }) => control.seek(session, to));
    post('step', STEP, (session, { ms }) => control.step(session, ms));
    post('speed', SPEED, (session, { speed }) => control.setSpeed(session, speed));
    done();
  });
}
