import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { FolderStorage } from '../../../src/archive/cold/storage.js';
import { Past } from '../../../src/archive/past.js';
import { type Clock, systemClock } from '../../../src/kernel/clock.js';
import type {
  CoverageClaim,
  DepthRow,
  KlineRow,
  StateRow,
  StreamRef,
  TradeRow,
} from '../../../src/model/batch.js';
import type { StreamKind } from '../../../src/model/series.js';
import type { ReplayOptions } from '../../../src/replay/context.js';
import { openReplay, type ReplayBackend } from '../../../src/replay/replay-backend.js';
import type { Store } from '../../../src/store/index.js';
import { type Served, serve } from '../exchanges/served.js';
import { openTestStore } from '../postgres/postgres.js';
import { NOON_S, trade } from '../postgres/postgres-rows.js';

/** Milliseconds, so many seconds after noon. */
export const noonMs = (seconds: number) => Math.round((NOON_S + seconds) * 1000);

/** A covered span, seconds after noon. */
export function covered(stream: StreamRef, fromS: number, toS: number): CoverageClaim {
  return { stream, span: { fromMs: noonMs(fromS), toMs: noonMs(toS) }, evidence: {} };
}

/** A trade `atS` seconds after noon, exact to the microsecond. */
export function exactTrade(tid: number, atS: number, values: Partial<TradeRow> = {}): TradeRow {
  const executedAtUs = Math.round((NOON_S + atS) * 1_000_000);
  return trade(tid, Math.floor(atS), { executedAtUs, ...values });
}

export function kline(openS: number, values: Partial<KlineRow> = {}): KlineRow {
  const prices = {
    open: '100',
    close: '101',
    high: '102',
    low: '99',
    volume: '3',
    quoteVolume: '301.5',
  };
  return {
    ...{ marketId: 1, intervalS: 60, openAtS: NOON_S + openS, ...prices },
    receivedAtMs: noonMs(openS + 65),
    ...values,
  };
}

export function depth(atS: number, values: Partial<DepthRow> = {}): DepthRow {
  return {
    ...{ marketId: 1, observedAtMs: noonMs(atS), receivedAtMs: noonMs(atS) },
    ...{ bidPrices: ['100.10', '100.00'], bidAmounts: ['1', '2.50'] },
    ...{ askPrices: ['100.20', '100.30', '100.40'], askAmounts: ['0.1', '4', '9'] },
    ...values,
  };
}

/** A pushed state, identified by its `last`. */
export function state(seq: number, atS: number, values: Partial<StateRow> = {}): StateRow {
  return {
    ...{ marketId: 1, periodS: 60, observedAtMs: noonMs(atS), seq, receivedAtMs: noonMs(atS) },
    ...{ last: String(seq), open: '100', close: String(seq), high: '200', low: '1' },
    ...{ quoteVolume: '10', volume: '5', change: null, origin: 'update', sessionId: 1 },
    ...values,
  };
}

export interface World {
  readonly store: Store;
  readonly url: string;
  readonly stream: (kind: StreamKind, variant?: number, marketId?: number) => Promise<StreamRef>;
  /** The trades of the first market, whose history begins so many seconds after noon. */
  readonly begun: (atS: number) => Promise<StreamRef>;
}

const MARKET = { stockPrec: 8, moneyPrec: 2, feePrec: 4, minAmount: '0.001' };

/** An archive of two markets, without rows. @param stocks their currencies */
export async function openWorld([one, other] = ['BTC', 'ETH']): Promise<World> {
  const { store, url } = await openTestStore();
  await store.claimArchive({ name: 'test', baseUrl: 'http://x', isSandbox: false, identity: null });
  const markets = [
    { name: `${one}_USDT`, stock: `${one}`, money: 'USDT', ...MARKET },
    { name: `${other}_USDT`, stock: `${other}`, money: 'USDT', ...MARKET },
  ];
  await store.ensureMarkets(markets, noonMs(0));
  return {
    ...{ store, url },
    stream: (kind, variant = 0, marketId = 1) => store.ensureStream({ kind, marketId, variant }),
    begun: async (atS) => {
      const stream = await store.ensureStream({ kind: 'trades', marketId: 1, variant: 0 });
      const { streamId } = stream;
      const begin = { streamId, fromMs: noonMs(atS), reason: 'history begins' } as const;
      await store.commit({ begins: [begin] });
      return stream;
    },
  };
}

export interface Replayed extends Served<ReplayBackend> {
  readonly failures: unknown[];
}

/** Serves an archive; by hand unless options differ, from noon on. Ends with the test. */
export async function startReplay(
  t: TestContext,
  store: Store,
  options: Partial<ReplayOptions> & {
    readonly isSteered?: boolean;
    readonly serverClock?: Clock;
  } = {},
): Promise<Replayed> {
  const { isSteered = true, serverClock, ...given } = options;
  const clock = given.clock ?? systemClock;
  const coldDir = join(tmpdir(), 'tapekeep-no-such-folder');
  const past =
    given.past ?? new Past(store, { clock: systemClock, cold: new FolderStorage(coldDir) });
  const failures: unknown[] = [];
  const backend = await openReplay({
    ...{ past, clock, span: { fromMs: noonMs(0), toMs: noonMs(600) }, markets: [] },
    ...{ speed: 'step', allowsGaps: true, hasDisconnects: false },
    onFailure: (error) => failures.push(error),
    ...given,
  });
  const served = await serve(t, backend, serverClock ?? clock, {
    control: isSteered,
    variants: { rateLimit: false, tradeFeed: 'pushed' },
  });
  t.after(() => past.close());
  return { ...served, failures };
}

/** A replay that is asked over HTTP. */
type Asked = { readonly server: { readonly url: string } };

const sessionHeader = (session: string | undefined): Record<string, string> =>
  session === undefined ? {} : { 'x-tapekeep-session': session };

/** Asks a public endpoint. */
export async function get({ server }: Asked, path: string, session?: string) {
  const headers = sessionHeader(session);
  const reply = await fetch(`${server.url}/api/v1/public/${path}`, { headers });
  const body = (await reply.json()) as { readonly result?: unknown; readonly message?: unknown };
  return {
    status: reply.status,
    body,
    result: body.result as never,
    dateMs: Date.parse(reply.headers.get('date') ?? ''),
    headers: reply.headers,
  };
}

/** Steers the time of a session, or asks for it. */
export async function control({ server }: Asked, path: string, body?: object, session?: string) {
  const reply = await fetch(`${server.url}/replay/${path}`, {
    method: body === undefined && (path === 'clock' || path === 'sessions') ? 'GET' : 'POST',
    headers: sessionHeader(session),
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  const { result, message } = (await reply.json()) as { result: unknown; message: string };
  return { status: reply.status, result: result as Record<string, unknown>, message };
}
