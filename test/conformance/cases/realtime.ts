import { createExchangeClock, openStateFeed } from '../../../src/client/index.js';
import { DOCUMENTED_INTERVALS_S } from '../../../src/contract/limits.js';
import { readServerFrame, STATE_UPDATE } from '../../../src/contract/realtime.js';
import { systemRandom } from '../../../src/kernel/random.js';
import { silentClientEvents } from '../../../src/observe/events.js';
import { type Case, type Context, known } from '../context.js';
import { type Findings, Skip } from '../outcome.js';
import { type Frame, type RealtimeOptions, RealtimeProbe } from '../realtime-probe.js';
import { type Fields, RESOURCES } from '../tables.js';
import { lookAtPayload } from '../wire-form.js';

const PERIOD_S = 86_400;
const MARKET = 'NOSUCH_MARKET';

const { change, ...told } = RESOURCES['state record'];
const queried: Fields = { ...told, change };
/** The notification carries the same, except `change`. */
const updated: Fields = told;

type Work = (probe: RealtimeProbe, context: Context, findings: Findings) => Promise<void>;

export function realtimeCase(id: string, title: string, work: Work): Case {
  return {
    id: `realtime.${id}`,
    title,
    async run(context, findings) {
      if (context.realtime === undefined) throw new Skip('no real-time address was given');
      await RealtimeProbe.use(context.realtime, (probe) => work(probe, context, findings));
    },
  };
}

export async function answered(
  probe: RealtimeProbe,
  method: string,
  params: unknown,
  findings: Findings,
): Promise<Frame> {
  const frame = await probe.ask(method, params);
  if (frame === undefined) throw new Error(`${method} is not answered`);
  judgeReading(frame, findings);
  return frame;
}

/** What the contract calls an answer must be one to the client, with the same id and error. */
function judgeReading(frame: Frame, findings: Findings): void {
  const isDue = typeof frame.id === 'number' && 'result' in frame && isError(frame.error);
  if (!isDue) return;
  const reading = readServerFrame(frame);
  const isSame =
    reading.kind === 'response' &&
    reading.id === frame.id &&
    JSON.stringify(reading.result) === JSON.stringify(frame.result) &&
    (reading.error === null) === (frame.error === null);
  const shown = JSON.stringify(frame).slice(0, 120);
  findings.check(isSame, `${shown} is read as ${JSON.stringify(reading)}`, 'client');
}

function isError(error: unknown): boolean {
  if (error === null) return true;
  const { code, message } = (error ?? {}) as { code?: unknown; message?: unknown };
  return typeof code === 'number' && typeof message === 'string';
}

/** Whether the typed client hears in time what is wanted; a connection that ends is a failure of its. */
export async function isHeard<Event extends { readonly kind: string }>(
  feed: AsyncIterable<Event> & { stop(): Promise<void> },
  { clock, timeoutMs }: RealtimeOptions,
  findings: Findings,
  isWanted: (event: Event) => boolean,
): Promise<boolean> {
  let isLate = false;
  const cancel = clock.after(timeoutMs, () => {
    isLate = true;
    void feed.stop();
  });
  try {
    for await (const event of feed) {
      if (isWanted(event)) return true;
      if (event.kind !== 'closed' || isLate) continue;
      findings.fail(`the connection ended: ${(event as { reason?: string }).reason}`, 'client');
      return true;
    }
    return false;
  } finally {
    cancel();
  }
}

/** The typed client follows the market until it has a record; called where all it needs is there. */
async function judgeFeed({ realtime, market }: Context, findings: Findings): Promise<void> {
  if (realtime === undefined) return;
  const { url, clock, timeoutMs } = realtime;
  const feed = openStateFeed({
    ...{ url, market, periodS: PERIOD_S, clock, random: systemRandom },
    telemetry: silentClientEvents,
    exchangeClock: createExchangeClock({ clock }),
    acknowledgeTimeoutMs: timeoutMs,
  });
  if (await isHeard(feed, realtime, findings, ({ kind }) => kind === 'record')) return;
  findings.fail('no record came in time', 'client');
}

/** Whether a frame is the answer of a successful subscribe or unsubscribe. */
export function judgeSuccess({ result, error, params }: Frame, findings: Findings): void {
  findings.check(error === null, `error is ${JSON.stringify(error)}`);
  const status = (result as { status?: unknown } | null)?.status;
  findings.check(status === 'success', `result is ${JSON.stringify(result)}`);
  findings.check(JSON.stringify(params) === '[]', `params are ${JSON.stringify(params)}`);
}

function judgeRecord(record: unknown, fields: Fields, periodS: number, findings: Findings): void {
  const { faults, loose, more } = lookAtPayload({ kind: 'fields', fields }, record);
  for (const fault of faults) findings.fail(fault);
  const [firstLoose] = loose;
  if (firstLoose !== undefined) findings.differs('numbersAsText', firstLoose);
  const names = more.filter((name) => name !== 'change');
  if (names.length > 0) findings.differs('moreFields', `fields ${names.slice(0, 5).join(', ')}`);
  const { period } = (record ?? {}) as { period?: unknown };
  findings.check(Number(period) === periodS, `period is ${JSON.stringify(period)}`);
}

function judgeUpdate(frame: Frame, market: string, periodS: number, findings: Findings): void {
  const reading = readServerFrame(frame);
  if (reading.kind !== 'update') {
    findings.fail(`not an update: ${JSON.stringify(frame).slice(0, 120)}`);
  } else if (reading.market !== undefined) {
    findings.check(frame.method === STATE_UPDATE, `method is ${JSON.stringify(frame.method)}`);
    findings.check(reading.market === market, `an update of ${reading.market}`);
    findings.differs('familyUpdate');
  } else {
    judgeRecord(frame.result, updated, periodS, findings);
    const hasChange = Object.hasOwn(frame.result as object, 'change');
    findings.check(!hasChange, 'an update carries change');
    const isNull = frame.id === null && frame.error === null;
    findings.check(
      isNull,
      `id is ${JSON.stringify(frame.id)}, error ${JSON.stringify(frame.error)}`,
    );
  }
}

/** Follows the market, by a list where only that is taken. */
async function follow(
  probe: RealtimeProbe,
  { market }: Context,
  findings: Findings,
): Promise<Frame> {
  const frame = await answered(probe, 'state.subscribe', [market, PERIOD_S], findings);
  if (frame.error === null) return frame;
  const listed = await answered(probe, 'state.subscribe', [market], findings);
  if (listed.error !== null) return frame;
  findings.differs('lists');
  return listed;
}

/** A call that cannot be served: an error, or silence. */
async function judgeRefused(
  probe: RealtimeProbe,
  method: string,
  params: unknown,
  findings: Findings,
) {
  const frame = await probe.ask(method, params);
  if (frame === undefined) {
    findings.differs('silence', `${method} ${JSON.stringify(params)} is not answered`);
    return;
  }
  judgeReading(frame, findings);
  const { error } = frame;
  const isRefused = typeof error === 'object' && error !== null;
  findings.check(isRefused, `${method} ${JSON.stringify(params)} is accepted`);
}

export const realtimeCases: readonly Case[] = [
  realtimeCase('query', 'state.query gives a whole record', async (probe, { market }, findings) => {
    const { result, error } = await answered(probe, 'state.query', [market, PERIOD_S], findings);
    findings.check(error === null, `error is ${JSON.stringify(error)}`);
    judgeRecord(result, queried, PERIOD_S, findings);
  }),
  realtimeCase(
    'query.echo',
    'state.query echoes id and params',
    async (probe, { market }, findings) => {
      const params = [market, PERIOD_S];
      const frame = await answered(probe, 'state.query', params, findings);
      const isSame = JSON.stringify(frame.params) === JSON.stringify(params);
      findings.check(isSame, `params are ${JSON.stringify(frame.params)}`);
    },
  ),
  realtimeCase(
    'query.periods',
    'every listed period is served',
    async (probe, { market }, findings) => {
      for (const period of DOCUMENTED_INTERVALS_S) {
        const { error, result } = await answered(probe, 'state.query', [market, period], findings);
        findings.check(error === null, `period ${period}: ${JSON.stringify(error)}`);
        if (error === null) judgeRecord(result, queried, period, findings);
      }
    },
  ),
  realtimeCase('query.market', 'an unknown market is refused', (probe, _context, findings) =>
    judgeRefused(probe, 'state.query', [MARKET, PERIOD_S], findings),
  ),
  realtimeCase('query.params', 'missing params are refused', (probe, _context, findings) =>
    judgeRefused(probe, 'state.query', [], findings),
  ),
  realtimeCase('subscribe', 'state.subscribe is acknowledged', async (probe, context, findings) => {
    judgeSuccess(await follow(probe, context, findings), findings);
  }),
  realtimeCase('update', 'state.update has its shape', async (probe, context, findings) => {
    await follow(probe, context, findings);
    judgeUpdate(await probe.nextPush(), context.market, PERIOD_S, findings);
  }),
  realtimeCase(
    'unsubscribe',
    'state.unsubscribe is acknowledged and ends the updates',
    async (probe, context, findings) => {
      await follow(probe, context, findings);
      judgeSuccess(await answered(probe, 'state.unsubscribe', [], findings), findings);
      const told = probe.pushed.length;
      await answered(probe, 'state.query', [context.market, PERIOD_S], findings);
      findings.check(probe.pushed.length === told, 'an update came after the end');
    },
  ),
  realtimeCase('feed', 'the typed client follows the market', async (probe, context, findings) => {
    judgeSuccess(await follow(probe, context, findings), findings);
    const params = [context.market, PERIOD_S];
    const { result } = await answered(probe, 'state.query', params, findings);
    judgeRecord(result, queried, PERIOD_S, findings);
    // Where the server is wrong already the client is not to be blamed.
    if (findings.verdict !== 'fail') await judgeFeed(context, findings);
  }),
  realtimeCase(
    'list',
    'a list of markets is refused, or followed whole',
    async (probe, context, findings) => {
      const listed = await known(context, 'markets', {});
      const other = listed.find(({ name }) => name !== context.market)?.name;
      if (other === undefined) throw new Skip('there is one market only');
      const names = [context.market, other];
      const { error, result } = await answered(probe, 'state.subscribe', names, findings);
      if (error !== null) return;
      const { status } = (result ?? {}) as { status?: unknown };
      findings.check(status === 'success', `result is ${JSON.stringify(result)}`);
      findings.differs('lists');
      const missing = new Set(names);
      while (missing.size > 0) {
        const frame = await probe.nextPush();
        const reading = readServerFrame(frame);
        const market = reading.kind === 'update' ? reading.market : undefined;
        const isOurs = market !== undefined && names.includes(market);
        const shown = JSON.stringify(frame).slice(0, 120);
        if (!findings.check(isOurs, `not an update of one of them: ${shown}`)) return;
        missing.delete(market ?? '');
      }
    },
  ),
  realtimeCase('method', 'an unknown method is refused', (probe, _context, findings) =>
    judgeRefused(probe, 'no.such', [], findings),
  ),
  realtimeCase('ping', 'server.ping keeps a connection open', async (probe, _context, findings) => {
    const { result, error } = (await probe.ask('server.ping', [])) ?? {};
    if (result === 'pong') return;
    findings.differs('pingRefused', `it gives ${JSON.stringify(error ?? result ?? 'nothing')}`);
    findings.check(probe.isOpen, 'the connection was closed');
  }),
  realtimeCase(
    'garbage',
    'an unreadable frame breaks nothing else',
    async (probe, context, findings) => {
      probe.sendText('{');
      const frame = await probe.ask('state.query', [context.market, PERIOD_S]);
      // Closing is as good as ignoring.
      findings.check(frame !== undefined || !probe.isOpen, 'the connection is deaf afterwards');
    },
  ),
];
