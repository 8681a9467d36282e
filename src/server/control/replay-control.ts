import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { z } from 'zod';
import { SESSION_HEADER } from '../../contract/gap-notices.js';
import { onlyKeys, show } from '../../contract/shape.js';
import { TapekeepError } from '../../kernel/errors.js';
import type { ClockControl } from '../backend.js';
import {
  ControlError,
  REPLAY_PREFIX,
  readBody,
  refuse,
  refuseFor,
  showResult,
} from './control-replies.js';

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
    readBody(request, NOTHING, {});
    return control.pause(session);
  },
  resume: (control, session, request) => {
    readBody(request, NOTHING, {});
    return control.resume(session);
  },
  seek: (control, session, request) => control.seek(session, readBody(request, SEEK, {}).to),
  step: (control, session, request) => control.step(session, readBody(request, STEP, {}).ms),
  speed: (control, session, request) =>
    control.setSpeed(session, readBody(request, SPEED, {}).speed),
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
 * recorded thing) and `/speed` ({"speed": 20}) changes it, POST of `/replay/sessions` makes the named
 * session, DELETE forgets it. Which session is meant says the header or the parameter by which clients name
 * it; one that was not made, by POST or by a client, is refused.
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
  const named = (session: string | undefined, what: string) => {
    if (session !== undefined) return session;
    throw new ControlError(`name the session that is to ${what}`);
  };
  app.post(
    `${REPLAY_PREFIX}sessions`,
    { bodyLimit: BODY_MAX_BYTES },
    steered((request, session) => {
      readBody(request, NOTHING, {});
      return control.begin(named(session, 'begin; the shared one is always there'));
    }),
  );
  app.delete(
    `${REPLAY_PREFIX}sessions`,
    steered((_request, session) =>
      control.end(named(session, 'be forgotten; the shared one stays')),
    ),
  );
  for (const [name, change] of Object.entries(changes)) {
    app.post(
      REPLAY_PREFIX + name,
      { bodyLimit: BODY_MAX_BYTES },
      steered((request, session) => change(control, session, request)),
    );
  }
}
