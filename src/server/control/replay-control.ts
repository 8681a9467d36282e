import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { TapekeepError } from '../../kernel/errors.js';
import { SESSION_HEADER } from '../seats.js';
import type { ClockControl, PlaySpeed } from './clock-control.js';
import { REPLAY_PREFIX, readJson, refuse, refuseFor, showResult } from './control-replies.js';

/** Largest body of a control request, bytes. */
const BODY_MAX_BYTES = 4 * 1024;
const SPEED_MAX = 100_000;
/** Longest single step: a year. */
const STEP_MAX_MS = 366 * 86_400_000;

/** The body of a control request cannot be used. */
class ControlError extends TapekeepError {
  constructor(message: string) {
    super('control_body_invalid', 'fatal', message);
  }
}

function show(value: unknown): string {
  const text = JSON.stringify(value) ?? String(value);
  return text.length > 80 ? `${text.slice(0, 80)}…` : text;
}

type Fields = Readonly<Record<string, unknown>>;

/** The fields of a body that may be left out whole. */
function readFields(request: FastifyRequest, ...known: readonly string[]): Fields {
  const body = Buffer.isBuffer(request.body) && request.body.length > 0 ? readJson(request) : {};
  if (typeof body !== 'object' || body === null || Array.isArray(body)) {
    throw new ControlError(`the body ${show(body)} is not allowed; expected a JSON object`);
  }
  for (const name of Object.keys(body)) {
    if (known.includes(name)) continue;
    const expected = known.length === 0 ? 'expected none' : `expected ${known.join(', ')}`;
    throw new ControlError(`unknown field ${show(name)}; ${expected}`);
  }
  return body as Fields;
}

/** @throws ControlError when it is not plain */
function readSession(request: FastifyRequest): string | undefined {
  const named = request.headers[SESSION_HEADER] ?? (request.query as Fields).session;
  if (named === undefined || typeof named === 'string') return named;
  throw new ControlError(`session ${show(named)} is not allowed; name one`);
}

function readInstant(value: unknown): number {
  const ms = typeof value === 'string' ? Date.parse(value) : value;
  const isInstant = typeof ms === 'number' && Number.isSafeInteger(ms);
  if (isInstant) return ms;
  throw new ControlError(
    `to ${show(value)} is not allowed; expected a time such as 2026-01-31T12:00:00Z, or UNIX milliseconds`,
  );
}

function readStep(value: unknown): number | undefined {
  if (value === undefined) return undefined;
  const isStep = typeof value === 'number' && Number.isSafeInteger(value) && value >= 1;
  if (isStep && value <= STEP_MAX_MS) return value;
  throw new ControlError(
    `ms ${show(value)} is not allowed; expected a whole number of milliseconds from 1 to ${STEP_MAX_MS}`,
  );
}

function readSpeed(value: unknown): PlaySpeed {
  if (value === 'max' || value === 'step') return value;
  if (typeof value === 'number' && value > 0 && value <= SPEED_MAX) return value;
  throw new ControlError(
    `speed ${show(value)} is not allowed; expected a number above 0 and up to ${SPEED_MAX}, "max" or "step"`,
  );
}

/** What each path below `/replay/` does. */
const changes: Readonly<
  Record<
    string,
    (
      control: ClockControl,
      session: string | undefined,
      request: FastifyRequest,
    ) => object | Promise<object>
  >
> = {
  pause: (control, session, request) => {
    readFields(request);
    return control.pause(session);
  },
  resume: (control, session, request) => {
    readFields(request);
    return control.resume(session);
  },
  seek: (control, session, request) =>
    control.seek(session, readInstant(readFields(request, 'to').to)),
  step: (control, session, request) =>
    control.step(session, readStep(readFields(request, 'ms').ms)),
  speed: (control, session, request) =>
    control.setSpeed(session, readSpeed(readFields(request, 'speed').speed)),
};

async function answer(
  request: FastifyRequest,
  reply: FastifyReply,
  work: (session: string | undefined) => object | Promise<object>,
): Promise<FastifyReply> {
  try {
    return showResult(reply, await work(readSession(request)));
  } catch (error) {
    // What can be repaired by waiting was not asked wrongly.
    if (error instanceof TapekeepError && error.action === 'retry') {
      return refuse(reply, 503, error.message);
    }
    return refuseFor(reply, error);
  }
}

/**
 * The time of a served recording: GET of `/replay/clock` and `/replay/sessions` shows it, POST of
 * `/replay/pause`, `/resume`, `/seek` ({"to": time}), `/step` ({"ms": 1000}, or nothing for the next
 * recorded thing) and `/speed` ({"speed": 20}) changes it, DELETE of `/replay/sessions` forgets the
 * named session. Which session is meant says the header or the parameter by which clients name it.
 *
 * @param isAllowed false: every one of them is refused with what to do about it
 */
export function addReplayControl(
  app: FastifyInstance,
  control: ClockControl,
  isAllowed: boolean,
): void {
  const guarded =
    (work: (request: FastifyRequest, reply: FastifyReply) => Promise<FastifyReply>) =>
    async (request: FastifyRequest, reply: FastifyReply) => {
      if (isAllowed) return work(request, reply);
      const message =
        'this replay is not to be steered from outside; start it with --control, or on a loopback address';
      return refuse(reply, 403, message);
    };
  const steered = (
    work: (request: FastifyRequest, session: string | undefined) => object | Promise<object>,
  ) =>
    guarded(async (request, reply) => answer(request, reply, (session) => work(request, session)));
  app.get(
    `${REPLAY_PREFIX}clock`,
    guarded((request, reply) => answer(request, reply, (session) => control.read(session))),
  );
  app.get(
    `${REPLAY_PREFIX}sessions`,
    guarded((request, reply) => answer(request, reply, () => control.sessions())),
  );
  app.delete(
    `${REPLAY_PREFIX}sessions`,
    steered((_request, session) => {
      if (session !== undefined) return control.end(session);
      throw new ControlError('name the session that is to be forgotten; the shared one stays');
    }),
  );
  for (const [name, change] of Object.entries(changes)) {
    app.post(
      REPLAY_PREFIX + name,
      { bodyLimit: BODY_MAX_BYTES },
      steered((request, session) => change(control, session, request)),
    );
  }
}
