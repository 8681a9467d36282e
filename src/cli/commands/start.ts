import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { setFlagsFromString } from 'node:v8';
import { redactUrl } from '../../config/load.js';
import type { Config } from '../../config/schema.js';
import { type Clock, endsInTime, sleep, systemClock } from '../../kernel/clock.js';
import { codeOf, isAborted, messageOf, TapekeepError } from '../../kernel/errors.js';
import { BoundedOutput } from '../../observe/bounded-output.js';
import type { Telemetry } from '../../observe/events.js';
import type { RunCountsSnapshot } from '../../observe/run-counts.js';
import { command, nothing, option, VERSION } from '../command.js';
import { Daemon, type DaemonAddresses, SIMULATING_PAST } from '../daemon/daemon.js';
import type { DaemonView } from '../daemon/daemon-status.js';
import { LiveSummary } from '../daemon/summary.js';
import { WAITING_FOR_EXCHANGE } from '../daemon/term.js';
import { endSoon, type StopReason, waitForStop } from '../ending.js';
import { EXIT_CODES, exitCodeOf } from '../failure.js';
import { openSession } from '../opening/session.js';
import { durationArgument, waitArgument } from '../options.js';
import { countOf, textOf } from '../output.js';

/** After a stop, what is left over gets this long before the process ends all the same. */
const LEFTOVER_MS = 300;

/** What a daemon does without when an output cannot be written any more. */
const WITHOUT = {
  stdout: ['output_closed', 'the summary'],
  stderr: ['log_closed', 'a log, and only the metrics tell of trouble'],
} as const;

/** Collects until a signal, the end of `--for`, or a failure that leaves nothing to go on with. */
export default command({
  options: {
    forMs: option(
      '--for <duration>',
      'stop after collecting for this time, such as 60s',
      durationArgument,
    ),
    waitMs: option(
      '--wait-for-database <duration>',
      'how long to wait for a database that does not respond; 0: do not wait (default: 2m)',
      waitArgument,
    ),
  },
  help: `
Without settings it starts the embedded Postgres below ./data and the built-in sandbox exchange, and collects
from it.

  tapekeep start --for 60s
  TAPEKEEP_EXCHANGE_URL=https://api.example.com TAPEKEEP_REALTIME_URL=wss://ws.example.com \\
    TAPEKEEP_DATA_DIR=./my-exchange TAPEKEEP_MARKETS=BTC_USDT,ETH_USDT tapekeep start

config/default.yaml explains every setting. Ctrl-C stores what was received and stops; a second one stops at once.`,
  needs: nothing,
  async run(common, { forMs, waitMs }) {
    // A daemon lives for months beside other programs: its heap shall stay close to what is in use
    // (seen with 500 markets: some 70 MB in use, 400 MB resident without this, 180 MB with it).
    setFlagsFromString('--optimize-for-size');
    const clock = systemClock;
    let summary: LiveSummary | undefined;
    const lost = new Set<string>();
    const isShared = process.stderr.isTTY === true && process.stdout.isTTY === true;
    // Log lines and the live table share one terminal: lines go above the table.
    const destination = (stderr: BoundedOutput) => ({
      isTTY: stderr.isTTY,
      write: (line: string) =>
        summary !== undefined && isShared && !lost.has('stdout')
          ? summary.write(line)
          : stderr.write(line),
    });
    const session = openSession(common, { destination });
    const { config, telemetry, exchangeTime } = session;
    const stdout = new BoundedOutput('stdout', process.stdout);
    stdout.reportTo(telemetry.daemon);
    let fail: (error: Error) => void = () => undefined;
    const failed = new Promise<Error>((resolve) => {
      fail = resolve;
    });
    // Setting up what is built in takes what it takes; what may never answer gets the same time.
    const time = runTime(clock, forMs);
    const stopWanted = waitForStop(clock, undefined, (stream, reason) => {
      if (lost.has(stream)) return;
      lost.add(stream);
      const [code, without] = WITHOUT[stream];
      const message = `${stream} cannot be written (${reason}): collecting continues without ${without}`;
      telemetry.daemon.warned({ code, message });
      if (stream === 'stdout') summary?.abandon();
    });
    const daemon = new Daemon({ ...session, waitMs, onFatal: fail });
    let signs: Promise<void> | undefined;
    const ending = new AbortController();
    const work = (async () => {
      if (config.database.url !== null) time.begin();
      const addresses = await daemon.open();
      stdout.write(greeting(addresses, config.dataDir));
      telemetry.daemon.started({ detail: { version: VERSION, ...addresses } as never });
      // The daemon is up: it will wait for the exchange and the database by itself.
      await reportToService('READY=1', telemetry);
      signs = giveSigns(daemon, telemetry, ending.signal);
      if (config.exchange.url !== null) time.begin();
      await daemon.connect();
      summary = new LiveSummary({
        output: stdout,
        clock,
        snapshot: () => telemetry.counts.snapshot(),
        exchangeNowMs: () => exchangeTime.nowMs(),
        firstHistory: () => daemon.firstHistory,
      });
      if (lost.has('stdout')) summary.abandon();
      summary.start();
      time.begin();
      await daemon.collect();
    })().catch((error: Error) => {
      if (!isAborted(error)) fail(error);
    });

    const ended = await Promise.race([stopWanted, time.isUp, failed]);
    const isUnready = ended === 'time is up' && !daemon.isConnected;
    const wanted = isUnready ? (daemon.identityConflict ?? unready(daemon.view, config)) : ended;
    const reason = wanted instanceof Error ? codeOf(wanted) : wanted;
    telemetry.daemon.stopping({ reason });
    const stoppingMs = clock.monotonicMs();
    const before = telemetry.counts.snapshot();
    ending.abort();
    const reporting = Promise.resolve(signs).then(() => reportToService('STOPPING=1', telemetry));
    await Promise.all([daemon.stop(), reporting]);
    await endsInTime(clock, LEFTOVER_MS, work);
    await summary?.stop();
    const unstored = unstoredRows(before, telemetry.counts.snapshot());
    const failure =
      wanted instanceof Error ? wanted : unstored > 0 ? notStored(unstored) : undefined;
    const exitCode = failure === undefined ? EXIT_CODES.ok : exitCodeOf(failure);
    if (failure) telemetry.daemon.failed({ code: codeOf(failure), message: messageOf(failure) });
    endSoon(LEFTOVER_MS);
    telemetry.daemon.stopped({ durationMs: clock.monotonicMs() - stoppingMs, exitCode });
    if (failure) throw failure;
    return exitCode;
  },
});

/** The program of systemd that speaks its protocol: Node has no sockets of that kind. */
const NOTIFY = 'systemd-notify';
const NOTIFY_LIMIT_MS = 5000;
/** Signs of life within the time after which the service manager takes the daemon for dead. */
const SIGNS = 3;

/** Reports to systemd; does nothing where no service manager asked for it (`NOTIFY_SOCKET`). */
async function reportToService(state: string, { daemon }: Telemetry): Promise<void> {
  const { env } = process;
  if ((env.NOTIFY_SOCKET ?? '') === '') return;
  await promisify(execFile)(NOTIFY, [state], { env, timeout: NOTIFY_LIMIT_MS }).catch(
    (error: unknown) => {
      const message = `${NOTIFY} ${state} failed (${messageOf(error)}): systemd does not know it`;
      daemon.warned({ code: 'service_report_failed', message });
    },
  );
}

/**
 * Tells systemd that the daemon lives, where it wants to know (`WATCHDOG_USEC`). One whose loops have stopped gives
 * no sign of life, and is started anew.
 */
async function giveSigns(daemon: Daemon, telemetry: Telemetry, signal: AbortSignal): Promise<void> {
  const periodMs = Number(process.env.WATCHDOG_USEC) / 1000 / SIGNS;
  while (periodMs > 0 && !signal.aborted) {
    if (daemon.isAlive) await reportToService('WATCHDOG=1', telemetry);
    await sleep(systemClock, periodMs, signal).catch(() => undefined);
  }
}

/** The time of `--for`. The timer does not keep a process alive that ends for another reason. */
function runTime(clock: Clock, forMs: number | undefined) {
  let end: () => void = () => undefined;
  let cancel: () => void = () => undefined;
  const isUp = new Promise<StopReason>((resolve) => {
    end = () => resolve('time is up');
  });
  /** All of it begins anew. */
  const begin = () => {
    cancel();
    if (forMs !== undefined) cancel = clock.after(forMs, end, { background: true });
  };
  return { isUp, begin };
}

/** Rows that had arrived, or arrived during the stop, and were not stored by its end. */
function unstoredRows(before: RunCountsSnapshot, after: RunCountsSnapshot): number {
  const lostIn = ({ streams }: RunCountsSnapshot) =>
    streams.reduce((sum, { lost }) => sum + lost, 0);
  const inFlight = after.streams.reduce((sum, one) => sum + one.inFlight, 0);
  return lostIn(after) - lostIn(before) + inFlight;
}

function notStored(rows: number): TapekeepError {
  return new TapekeepError(
    'rows_unstored',
    `${countOf(rows, 'row')} that had arrived could not be stored before the end; the log says why, as far as it is known. The next start fetches trades and candles of that time again; of depth, tickers and states it is a gap`,
  );
}

/** Why a run had no time to collect. */
function unready({ phase, databaseTrouble }: DaemonView, { exchange }: Config): TapekeepError {
  if (databaseTrouble !== undefined) {
    const text = `the time of this run was over while it waited for the database: ${databaseTrouble}; give it longer, and if it stays there look at database.url (TAPEKEEP_DATABASE_URL)`;
    return new TapekeepError('start_unfinished', text);
  }
  if (phase === WAITING_FOR_EXCHANGE && exchange.url !== null) {
    const text = `the exchange at ${exchange.url} gave no usable response before the --for time ended; see the log, and check exchange.url (TAPEKEEP_EXCHANGE_URL)`;
    return new TapekeepError('exchange_silent', text);
  }
  const still = `while it was still ${phase}; give it longer`;
  const why =
    phase === WAITING_FOR_EXCHANGE
      ? 'before the built-in exchange had answered; give it longer'
      : phase === SIMULATING_PAST
        ? `${still}, or shorten sandbox.history (TAPEKEEP_SANDBOX_HISTORY)`
        : `${still}, and if it stays there look at database.url (TAPEKEEP_DATABASE_URL)`;
  return new TapekeepError('start_unfinished', `the time of this run was over ${why}`);
}

function greeting(addresses: DaemonAddresses, dataDir: string): string {
  const { exchange, realtime, proxy, database, status } = addresses;
  return textOf([
    `tapekeep ${VERSION}`,
    `  exchange  ${exchange}`,
    realtime !== null && `  realtime  ${redactUrl(realtime)}`,
    proxy !== null && `  proxy     ${proxy}`,
    `  database  ${database}`,
    status !== null && [`  status    ${status}/`, `  metrics   ${status}/metrics`],
    `  data      ${dataDir}`,
    '  Stop with Ctrl-C; ask "tapekeep status" or "tapekeep query" from another terminal.',
  ]);
}
