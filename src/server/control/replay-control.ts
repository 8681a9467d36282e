import type { FastifyInstance, FastifyRequest } from 'fastify';
import { z } from 'zod';
import { SESSION_HEADER } from '../../contract/gap-notices.js';
import { onlyKeys, show } from '../../contract/shape.js';
import type { ClockControl } from '../backend.js';
import { ControlError, REPLAY_PREFIX, readBody, refuse } from './control-replies.js';

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
export function addReplayControl(
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
