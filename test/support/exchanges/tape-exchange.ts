import { rmSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import type { Balance } from '../../../src/contract/resources.js';
import type { ServerVariants } from '../../../src/contract/variants.js';
import type { Clock } from '../../../src/kernel/clock.js';
import { HOUR_MS } from '../../../src/kernel/durations.js';
import { openLive } from '../../../src/sandbox/live/open-live.js';
import { TAPE_HEADER } from '../../../src/sandbox/tape/recorded-tape.js';
import {
  openTape,
  type RecordedTape,
  type TapeBackend,
  type TapeOptions,
} from '../../../src/sandbox/tape/tape-backend.js';
import { type Accounts, type Backend, RefusedError } from '../../../src/server/backend.js';
import { FakeClock } from '../fake-clock.js';
import { type Served, serve } from './served.js';

/** A folder that is removed after the test. */
export async function temporaryFolder(t: TestContext): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'tapekeep-tape-'));
  t.after(() => rm(folder, { recursive: true, force: true }));
  return folder;
}

/** Writes a tape file from the text of its lines, the header excluded. */
export async function writeTape(t: TestContext, lines: readonly string[]): Promise<string> {
  const path = join(await temporaryFolder(t), 'tape.csv');
  await writeFile(path, `${[TAPE_HEADER, ...lines].join('\n')}\n`);
  return path;
}

/** Start of the recorded tapes of tests, on a full hour. */
export const TEST_ORIGIN_MS = Date.UTC(2026, 5, 1);

interface Recording {
  readonly tapes: RecordedTape[];
  readonly firstMs: number;
}

let recording: Promise<Recording> | undefined;

/** Writes two hours of the live exchange into tape files, which go with the process. */
async function record(): Promise<Recording> {
  const startMs = TEST_ORIGIN_MS + 2 * HOUR_MS;
  const exchange = await openLive({ originMs: TEST_ORIGIN_MS, startMs }, new FakeClock());
  const folder = await mkdtemp(join(tmpdir(), 'tapekeep-recorded-'));
  process.once('exit', () => rmSync(folder, { recursive: true, force: true }));
  const tapes: RecordedTape[] = [];
  let firstMs = startMs;
  for (const { name: market } of exchange.markets()) {
    const lines = Array.from(exchange.truth(market), ({ id, timeUs, price, amount, side }) => {
      const timeMs = Math.floor(timeUs / 1000);
      firstMs = Math.min(firstMs, timeMs);
      return [id, timeMs, price, amount, side].join(',');
    });
    const path = join(folder, `${market}.csv`);
    await writeFile(path, `${[TAPE_HEADER, ...lines].join('\n')}\n`);
    tapes.push({ market, path });
  }
  exchange.stop();
  return { tapes, firstMs };
}

/** A tape of four markets, from busy to quiet, an hour after its origin; or what `options` say. */
export async function testTape(options: Partial<TapeOptions> = {}): Promise<TapeOptions> {
  if (options.tapes !== undefined) return { tapes: options.tapes, ...options };
  recording ??= record();
  const { tapes, firstMs } = await recording;
  return { tapes, startOffsetS: (TEST_ORIGIN_MS + HOUR_MS - firstMs) / 1000, ...options };
}

/** Secrets by API key. */
type Keys = Readonly<Record<string, string>>;

/** Accounts that hold nothing, for tests of signed requests. */
function emptyAccounts(keys: Keys) {
  const secrets = new Map(Object.entries(keys));
  return {
    secretOf: (apiKey: string) => secrets.get(apiKey),
    balances: (): Record<string, Balance> => ({}),
    placeOrder: () => {
      throw new RefusedError('operationBlocked', 'no orders are taken');
    },
    activeOrders: () => ({ total: 0, rows: [] }),
  } satisfies Accounts;
}

/** A tape exchange on a free port; ends with the test. @param options with `keys`: accounts, too */
export async function startTapeExchange(
  t: TestContext,
  { keys, ...options }: Partial<TapeOptions> & { readonly keys?: Keys } = {},
  variants: Partial<ServerVariants> = {},
  clock: Clock = new FakeClock(),
): Promise<Served<TapeBackend & Backend>> {
  const backend: TapeBackend & Backend = await openTape(await testTape(options), clock);
  if (keys !== undefined) Object.assign(backend, { accounts: emptyAccounts(keys) });
  return serve(t, backend, clock, { variants });
}
