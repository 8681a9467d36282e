import { createExchangeClock, openTradeFeed } from '../../../src/client/index.js';
import { dialectOf } from '../../../src/contract/dialects.js';
import { equalDecimals } from '../../../src/kernel/decimal.js';
import { systemRandom } from '../../../src/kernel/random.js';
import { silentClientEvents } from '../../../src/observe/events.js';
import { type Case, type Context, fresh } from '../context.js';
import { type Findings, Skip } from '../outcome.js';
import type { Frame, RealtimeProbe } from '../realtime-probe.js';
import { type Payload, RESOURCES } from '../tables.js';
import { lookAtPayload } from '../wire-form.js';
import { answered, isHeard, judgeSuccess, realtimeCase } from './realtime.js';

/**
 * Trades that are pushed: the contract has none of it, and exchanges that speak it may. Where there are any,
 * they must be those of history. Words as EarnBIT was heard to use them (field notes, Real-time); like the whole
 * suite, nothing here speaks another dialect.
 */
const SUBSCRIBE = 'deals.subscribe';
const UPDATE = 'deals.update';

const { total: _total, ...pushedFields } = RESOURCES['trade of history'];
const ROWS: Payload = { kind: 'rows', of: { kind: 'fields', fields: pushedFields } };

interface PushedRow {
  readonly id: number;
  readonly time: number;
  readonly price: string;
  readonly amount: string;
  readonly type: string;
}

/** @throws Skip where it has no such method */
async function subscribe(probe: RealtimeProbe, { market }: Context, findings: Findings) {
  const frame = await probe.ask(SUBSCRIBE, [market]);
  if (frame === undefined || (frame.error ?? null) !== null) {
    throw new Skip('this exchange pushes no trades');
  }
  judgeSuccess(frame, findings);
}

/** The rows of an update; undefined where it has another form, which is told. */
function rowsOf(frame: Frame, market: string, findings: Findings): PushedRow[] | undefined {
  const [name, rows] = Array.isArray(frame.params) ? (frame.params as unknown[]) : [];
  if (!findings.check(name === market, `an update of ${JSON.stringify(name)}`)) return undefined;
  const { faults } = lookAtPayload(ROWS, rows);
  for (const fault of faults) findings.fail(fault);
  return faults.length === 0 ? (rows as PushedRow[]) : undefined;
}

const isUpdate = ({ method }: Frame) => method === UPDATE;

/** The typed client must hear of trades where the exchange pushes some. */
async function judgeFeed({ realtime, market }: Context, findings: Findings): Promise<void> {
  if (realtime === undefined) return;
  const { url, clock, timeoutMs } = realtime;
  const feed = openTradeFeed({
    ...{ url, clock, random: systemRandom, words: dialectOf('contract').realtime },
    ...{ telemetry: silentClientEvents, markets: () => [market] },
    exchangeClock: createExchangeClock({ clock }),
    acknowledgeTimeoutMs: timeoutMs,
  });
  const isJudged = await isHeard(feed, realtime, findings, (event) => {
    if (event.kind !== 'trades') return false;
    const [first] = event.rejected;
    if (first !== undefined) findings.fail(`a row is refused: ${first.reason}`, 'client');
    return true;
  });
  if (!isJudged) throw new Skip('no trade came in time');
}

export const pushedTradeCases: readonly Case[] = [
  realtimeCase(
    'trades.subscribe',
    'a subscription of pushed trades is acknowledged, and one of nothing refused',
    async (probe, context, findings) => {
      await subscribe(probe, context, findings);
      const { error } = await answered(probe, SUBSCRIBE, [], findings);
      findings.check((error ?? null) !== null, 'a subscription of no market is accepted');
    },
  ),
  realtimeCase(
    'trades.update',
    'pushed trades have the form of history, ids that grow, and come once',
    async (probe, context, findings) => {
      await subscribe(probe, context, findings);
      let highest = 0;
      for (let frames = 0; frames < 2; frames += 1) {
        const frame = await probe.nextPush(isUpdate);
        const ids = rowsOf(frame, context.market, findings)?.map(({ id }) => id) ?? [];
        findings.check(frame.id === null, `id is ${JSON.stringify(frame.id)}`);
        const least = Math.min(...ids);
        findings.check(least > highest, `trade ${least} comes after trade ${highest}`);
        findings.check(new Set(ids).size === ids.length, 'a trade comes twice in one update');
        highest = Math.max(highest, ...ids);
      }
    },
  ),
  realtimeCase(
    'trades.history',
    'pushed trades are those of history',
    async (probe, context, findings) => {
      await subscribe(probe, context, findings);
      const { market } = context;
      const rows = rowsOf(await probe.nextPush(isUpdate), market, findings) ?? [];
      const page = await fresh(context, 'history', { market, lastId: 0, limit: 100 });
      const byId = new Map(page.map((trade) => [trade.id, trade]));
      const shown = rows.filter(({ id }) => byId.has(id));
      // A cache may be older than the update.
      if (shown.length === 0) throw new Skip('history does not show the pushed trades yet');
      for (const { id, time, price, amount, type } of shown) {
        const trade = byId.get(id);
        const isSame =
          trade !== undefined &&
          equalDecimals(trade.price, price) &&
          equalDecimals(trade.amount, amount) &&
          trade.type === type &&
          Math.floor(trade.time) === Math.floor(time);
        findings.check(isSame, `trade ${id} is ${JSON.stringify(trade)} in history`);
      }
    },
  ),
  realtimeCase(
    'trades.feed',
    'the typed client follows pushed trades',
    async (probe, context, findings) => {
      await subscribe(probe, context, findings);
      rowsOf(await probe.nextPush(isUpdate), context.market, findings);
      // Where the server is wrong already the client is not to be blamed.
      if (findings.verdict !== 'fail') await judgeFeed(context, findings);
    },
  ),
];
