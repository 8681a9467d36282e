import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import type { Clock } from '../../../src/kernel/clock.js';
import type { ServerEvents } from '../../../src/observe/events.js';
import { TAPE_HEADER } from '../../../src/sandbox/csv-tape.js';
import { openTape } from '../../../src/sandbox/open-tape.js';
import type { TapeOptions } from '../../../src/sandbox/options.js';
import type { TapeBackend } from '../../../src/sandbox/tape-backend.js';
import { type ExchangeServer, startExchangeServer } from '../../../src/server/exchange-server.js';
import type { ServerVariants } from '../../../src/server/variants.js';
import { FakeClock } from '../fake-clock.js';

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

/** Server telemetry that remembers everything. */
export class ServerRecord implements ServerEvents {
  readonly requests: Array<{ endpoint: string; status: number }> = [];
  readonly closings: string[] = [];
  readonly failures: Array<{ endpoint: string; code: string; message: string }> = [];
  open = 0;

  served({ endpoint, status }: { endpoint: string; status: number }): void {
    this.requests.push({ endpoint, status });
  }

  realtimeOpened({ open }: { open: number }): void {
    this.open = open;
  }

  realtimeClosed({ open, reason }: { open: number; reason: string }): void {
    this.open = open;
    this.closings.push(reason);
  }

  handlerFailed(event: { endpoint: string; code: string; message: string }): void {
    this.failures.push(event);
  }
}

export interface TapeExchange {
  readonly backend: TapeBackend;
  readonly server: ExchangeServer;
  readonly record: ServerRecord;
}

/** Start of generated tapes of tests. */
export const TEST_ORIGIN_MS = Date.UTC(2026, 5, 1);

/** A generated tape in its own time, an hour after its origin. */
export const GENERATED: TapeOptions = {
  source: { kind: 'generated', originMs: TEST_ORIGIN_MS },
  time: 'tape',
  startOffsetS: 3600,
};

/** A tape exchange on a free port; ends with the test. */
export async function startTapeExchange(
  t: TestContext,
  options: TapeOptions = GENERATED,
  variants: Partial<ServerVariants> = {},
  clock: Clock = new FakeClock(),
): Promise<TapeExchange> {
  const backend = await openTape(options, clock);
  const record = new ServerRecord();
  const server = await startExchangeServer({ backend, clock, telemetry: record, variants });
  t.after(async () => {
    await server.stop();
    backend.stop();
  });
  return { backend, server, record };
}
