import { rm } from 'node:fs/promises';
import { parseArgs } from 'node:util';
import { sleep, systemClock } from '../../src/kernel/clock.js';
import { isAborted, messageOf } from '../../src/kernel/errors.js';
import { seededRandom } from '../../src/kernel/random.js';
import { startEmbeddedPostgres } from '../../src/store/index.js';
import { tableOf } from '../bench/report.js';
import { type Claims, judgeClaims } from '../support/oracle/claims.js';
import { assertConserved } from '../support/oracle/conserved.js';
import { makeTempDir, openSql, quietStoreEvents } from '../support/postgres/postgres-server.js';
import { startSandbox } from '../support/programs/program.js';
import { Collector } from './collector.js';
import { type Sample, trendOf } from './sample.js';

/**
 * A long run under mixed faults: `npm run soak -- --minutes 60 --markets 30 --kills`. A daemon on its
 * embedded server collects from a sandbox in which something is always wrong. A line a minute says how
 * it does; in the end every claim of the archive is held against what the sandbox issued. Ctrl-C ends
 * it early, with the check of the claims. Exit code 0 when nothing was false, lost or growing.
 */
const MINUTE_MS = 60_000;
/** Without faults, for gaps that can be filled. */
const CALM_MAX_MS = 3 * MINUTE_MS;
const LOOK_MS = 1000;
const KILL_EVERY_MS = { least: 40_000, most: 120_000 };

/** Chances at each request, frame or answer. */
const FAULTS = [
  'kind=latency,probability=0.1,ms=100,jitterMs=900',
  'kind=rateLimit,probability=0.007,retryAfterS=1',
  'kind=reset,probability=0.01',
  'kind=status,probability=0.01,status=502',
  'kind=html,probability=0.003,status=502',
  'kind=truncate,probability=0.01',
  'kind=malformed,probability=0.005',
  'kind=emptyBody,probability=0.003',
  'kind=drip,probability=0.002,bytes=512,ms=50',
  'kind=wrongDate,probability=0.005,byS=60',
  'kind=wrongDate,id=slow-date,probability=0.005,byS=-60',
  'kind=stale,probability=0.006,ms=5000',
  'kind=dropSocket,at=frame,probability=0.003',
  'kind=halfOpen,at=frame,probability=0.001',
  'kind=duplicateFrames,probability=0.01',
  'kind=garbageFrame,probability=0.003',
];

const OPTIONS = {
  minutes: { type: 'string', default: '60' },
  markets: { type: 'string', default: '30' },
  seed: { type: 'string', default: '7' },
  rate: { type: 'string', default: '40' },
  kills: { type: 'boolean', default: false },
  keep: { type: 'boolean', default: false },
} as const;

function readWhole(name: string, text: string): number {
  if (/^[1-9]\d{0,4}$/.test(text)) return Number(text);
  throw new Error(`--${name} ${text}: expected a whole number from 1 to 99999`);
}

const say = (text: string) => void process.stdout.write(`${text}\n`);

/** Samples once a minute, and kills now and then, until the time is over or it is interrupted. */
async function watch(
  collector: Collector,
  endMs: number,
  isKilling: boolean,
  seed: number,
  signal: AbortSignal,
): Promise<Sample[]> {
  const random = seededRandom(seed);
  const pause = () => KILL_EVERY_MS.least + random() * (KILL_EVERY_MS.most - KILL_EVERY_MS.least);
  const startMs = systemClock.monotonicMs();
  const samples: Sample[] = [];
  let sampleAtMs = startMs + MINUTE_MS;
  let killAtMs = isKilling ? startMs + pause() : Number.POSITIVE_INFINITY;
  say('minute  rss MB  descriptors  lag p99 ms  open gaps    rows  requests/s  kills');
  while (systemClock.monotonicMs() < endMs && !signal.aborted) {
    const nextMs = Math.min(sampleAtMs, killAtMs, endMs);
    await sleep(systemClock, Math.max(0, nextMs - systemClock.monotonicMs()), signal).catch(
      (error: unknown) => {
        if (!isAborted(error)) throw error;
      },
    );
    const nowMs = systemClock.monotonicMs();
    if (nowMs >= killAtMs && !signal.aborted) {
      await collector.kill();
      killAtMs = nowMs + pause();
    }
    if (nowMs < sampleAtMs) continue;
    sampleAtMs += MINUTE_MS;
    const sample = await collector.sample(Math.round((nowMs - startMs) / MINUTE_MS));
    if (sample === undefined) {
      say(`${samples.length + 1}  no metrics: ${collector.trouble}`);
      continue;
    }
    samples.push(sample);
    const cells = [
      [sample.minute, 6],
      [sample.rssMb.toFixed(0), 8],
      [sample.descriptors, 13],
      [sample.lagP99Ms.toFixed(0), 12],
      [sample.openGaps, 11],
      [sample.rows, 8],
      [sample.requestsPerS.toFixed(1), 12],
      [collector.kills, 7],
    ] as const;
    say(cells.map(([text, width]) => String(text).padStart(width)).join(''));
  }
  return samples;
}

/** Waits until no gap is open, at most {@link CALM_MAX_MS}. @returns those that still are */
async function calmDown(collector: Collector, sandboxUrl: string): Promise<number> {
  await fetch(new URL('/sandbox/faults', sandboxUrl), { method: 'DELETE' });
  const endMs = systemClock.monotonicMs() + CALM_MAX_MS;
  for (;;) {
    const open = (await collector.figures())?.('tapekeep_open_gaps') ?? Number.NaN;
    if (open === 0 || systemClock.monotonicMs() > endMs) return open;
    await sleep(systemClock, LOOK_MS);
  }
}

/** Opens the archive of a daemon that has ended, on its own server. */
async function judgeFolder(dir: string, sandboxUrl: string, stoppedAtMs: number): Promise<Claims> {
  const telemetry = quietStoreEvents();
  const server = await startEmbeddedPostgres({ dataDir: dir, clock: systemClock, telemetry });
  try {
    const archive = await openSql(server.url);
    try {
      return await judgeClaims(archive, sandboxUrl, stoppedAtMs);
    } finally {
      await archive.end();
    }
  } finally {
    await server.stop();
  }
}

async function firedFaults(sandboxUrl: string): Promise<Record<string, number>> {
  const text = await (await fetch(new URL('/sandbox/faults', sandboxUrl))).text();
  const fired: Record<string, number> = {};
  for (const [, rule = '', count] of text.matchAll(/"rule":"([^"]+)"[^}]*?"fired":(\d+)/g)) {
    fired[rule] = Number(count);
  }
  return fired;
}

async function main(): Promise<number> {
  const { values } = parseArgs({ options: OPTIONS });
  const minutes = readWhole('minutes', values.minutes);
  const markets = readWhole('markets', values.markets);
  const seed = readWhole('seed', values.seed);
  const rate = readWhole('rate', values.rate);
  const interrupted = new AbortController();
  process.once('SIGINT', () => interrupted.abort());
  process.once('SIGTERM', () => interrupted.abort());

  const names = Array.from({ length: markets }, (_, at) =>
    at === 0 ? 'BTC_USDT' : `S${String(at).padStart(2, '0')}_USDT`,
  );
  const dir = await makeTempDir();
  const rules = FAULTS.map((rule, at) =>
    rule.includes('id=') ? rule : `${rule},id=${at + 1}-${/kind=(\w+)/.exec(rule)?.[1]}`,
  );
  const { program: sandbox, ready } = await startSandbox([
    ...['--seed', String(seed), '--keep-all', '--no-rate-limit', '--start-offset', '2m'],
    ...names.flatMap((name) => ['--market', name]),
    ...rules.flatMap((rule) => ['--fault', rule]),
  ]);
  const collector = new Collector({
    TAPEKEEP_DATA_DIR: dir,
    TAPEKEEP_EXCHANGE_URL: ready.url,
    TAPEKEEP_REALTIME_URL: ready.realtimeUrl,
    TAPEKEEP_EXCHANGE_REQUESTS_PER_S: String(rate),
    TAPEKEEP_HTTP_PORT: '0',
    TAPEKEEP_LOG_LEVEL: 'warn',
    TAPEKEEP_LOG_FORMAT: 'json',
  });
  try {
    say(`${markets} markets, ${minutes} minutes, ${rate} requests/s, seed ${seed}, in ${dir}`);
    await collector.start();
    const endMs = systemClock.monotonicMs() + minutes * MINUTE_MS;
    const samples = await watch(collector, endMs, values.kills, seed, interrupted.signal);
    const fired = await firedFaults(ready.url);
    say('faults end; gaps that can be filled are waited for');
    const openGaps = await calmDown(collector, ready.url);
    const faults = [...collector.faults];
    const text = await collector.metrics().catch(() => '');
    try {
      assertConserved(text);
    } catch (error) {
      faults.push(messageOf(error));
    }
    faults.push(...(await collector.stop()));
    const claims = await judgeFolder(dir, ready.url, systemClock.wallMs());
    const trend = trendOf(samples);
    faults.push(...trend.faults);
    for (const [name, count] of Object.entries(claims.lies)) {
      if (count > 0) faults.push(`${count} ${name}`);
    }
    if (claims.proven === 0) faults.push('nothing was proven');
    const hour = (value: number | null) => (value === null ? 'too short' : value.toFixed(1));
    say(
      tableOf([
        ['trades issued', String(claims.issued)],
        ['proven', String(claims.proven)],
        ['stored, not claimed', String(claims.issued - claims.proven - claims.missing)],
        ['missing, not claimed', String(claims.missing)],
        ...Object.entries(claims.lies).map(([name, count]) => [name, String(count)]),
        ['gaps open at the end', String(openGaps)],
        ['RSS MB an hour', hour(trend.rssMbPerHour)],
        ['descriptors an hour', hour(trend.descriptorsPerHour)],
        ['lag p99 ms, median and worst', `${trend.lagP99MedianMs} ${trend.lagP99WorstMs}`],
        ['kills', String(collector.kills)],
      ]),
    );
    for (const fault of faults) say(`FAILED: ${fault}`);
    const verdict = faults.length === 0 ? 'pass' : 'fail';
    const ran = samples.at(-1)?.minute ?? 0;
    const { lies, ...counts } = claims;
    const facts = { minutes: ran, markets, seed, kills: collector.kills, ...counts, lies };
    say(JSON.stringify({ soak: verdict, ...facts, openGaps, ...trend, faults, fired }));
    return faults.length === 0 ? 0 : 1;
  } finally {
    await collector.dispose();
    await sandbox.dispose();
    if (!values.keep) await rm(dir, { recursive: true, force: true });
  }
}

process.exitCode = await main().catch((error: unknown) => {
  process.stderr.write(`soak: ${messageOf(error)}\n`);
  return 1;
});
