import { access, constants, readlink, rm, statfs, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { join, relative, resolve, sep } from 'node:path';
import type { StateFeed } from '../../client/index.js';
import { exchangeNameOf, redactUrl } from '../../config/load.js';
import type { Config } from '../../config/schema.js';
import type { DialectName } from '../../contract/dialects.js';
import type { EndpointName } from '../../contract/endpoints.js';
import { endsInTime, systemClock } from '../../kernel/clock.js';
import { shownDuration } from '../../kernel/durations.js';
import { codeOf, messageOf } from '../../kernel/errors.js';
import { type ExchangeKind, exchangeKindOf } from '../../kernel/exchange-kind.js';
import { nearestName } from '../../kernel/nearest.js';
import {
  type ArchiveIdentity,
  hasEmbeddedCluster,
  otherExchange,
  type Store,
  sharesWithoutHolder,
} from '../../store/index.js';
import { adviceOn } from '../api/advice.js';
import { checkEndpoints, type EndpointAnswer } from '../api/endpoint-check.js';
import { command, nothing } from '../command.js';
import { nearestFolder } from '../daemon/housekeeping.js';
import { EndedError } from '../ending.js';
import { EXIT_CODES } from '../failure.js';
import { standbyText } from '../gaps.js';
import {
  coldDirOf,
  coldFolderTrouble,
  coldOf,
  describeDatabase,
  withArchive,
} from '../opening/database.js';
import {
  archiveIdentityOf,
  firstAnswer,
  openExchange,
  proxiesOf,
  refuseOtherDialect,
} from '../opening/exchange.js';
import { openSession, type Session } from '../opening/session.js';
import { JSON_DOCUMENT, kebabCase } from '../options.js';
import { countOf, jsonLine, printable, writeOut } from '../output.js';

/** What one look found. */
interface Finding {
  readonly what: string;
  readonly state: 'ok' | 'warning' | 'wrong';
  readonly found: string;
  /** What to do about it. */
  readonly advice?: string | undefined;
}

type Found = Omit<Finding, 'what'>;
/** What is not found is false, or none. */
type Look = () => Promise<readonly (Found | false | null | undefined)[]>;
const ok = (found: string): Found => ({ state: 'ok', found });
const warning = (found: string, advice: string): Found => ({ state: 'warning', found, advice });
const wrong = (found: string, advice?: string): Found => ({ state: 'wrong', found, advice });

const READS_ONLY = 'this login reads only, and collecting stores rows';
const LOGIN_ADVICE =
  'name one of tapekeep_writer in database.url: "Users" in docs/guides/sql.md says what each group may do';

/** One look that fails or hangs is a finding, and the next one comes all the same. */
async function look(what: string, at: Look): Promise<Finding[]> {
  try {
    return (await at()).flatMap((found) => (found ? [{ what, ...found }] : []));
  } catch (error) {
    if (error instanceof EndedError) throw error;
    return [{ what, ...wrong(messageOf(error), adviceOn(error)) }];
  }
}

/** Says what is wrong with the surroundings of the daemon, and what to do. */
export default command({
  options: { json: JSON_DOCUMENT },
  help: `
Checks the settings, the data folder and its disk, the database, the port of the console, the exchange
and the clock, changes nothing, and says what to do about each that does not serve. Of the exchange it requests
each public endpoint once: which dialect it speaks, which responses can be read, whether real time works.

  TAPEKEEP_EXCHANGE_URL=http://127.0.0.1:8080 TAPEKEEP_REALTIME_URL=ws://127.0.0.1:8080/ws tapekeep doctor

Exit code 0: collecting can begin; 1: something has to be changed first. A warning alone is 0.`,
  needs: nothing,
  async run(common, { json }) {
    const session = openSession({ logLevel: 'silent', ...common });
    const { config } = session;
    let bound: ArchiveIdentity | null = null;
    let isCollecting = false;
    const coldFolder: Look = async () => (config.cold.enabled ? await coldPlaceOf(config) : []);
    const looks: readonly (readonly [string, Look])[] = [
      ['data folder', () => folderOf(config.dataDir, 'dataDir (TAPEKEEP_DATA_DIR)')],
      ['cold folder', coldFolder],
      [
        'database',
        () =>
          databaseOf(session, (archive, collects) => {
            bound = archive;
            isCollecting = collects;
          }),
      ],
      ['console', () => portOf(session, isCollecting)],
      ['notices', async () => [noticesOf(config)]],
      ['exchange', () => exchangeOf(session, bound)],
    ];
    const findings: Finding[] = [];
    for (const [what, at] of looks) {
      // It lies in that folder, and could not even be seen.
      const isHidden = what === 'database' && config.database.url === null;
      if (isHidden && findings[0]?.state === 'wrong') continue;
      const found = await look(what, at);
      findings.push(...found);
      if (!json) await writeOut(found.map(lineOf).join(''));
    }
    const isWrong = findings.some(({ state }) => state === 'wrong');
    if (json) await writeOut(jsonLine({ isFit: !isWrong, findings }));
    return isWrong ? EXIT_CODES.failure : EXIT_CODES.ok;
  },
});

const MARKS = { ok: 'ok       ', warning: 'warning  ', wrong: 'WRONG    ' } as const;

function lineOf({ what, state, found, advice }: Finding): string {
  const todo = advice === undefined ? '' : `\n${' '.repeat(22)}${advice}`;
  return `${MARKS[state]}${what.padEnd(13)}${printable(found)}${todo}\n`;
}

const MIB = 2 ** 20;
const GIB = 2 ** 30;
/** Below it there is a warning; below the other one Postgres cannot work on for long. */
const LOW_BYTES = 5 * GIB;
const LEAST_BYTES = GIB / 4;

/** Tries to write cold files. */
async function coldPlaceOf(config: Config): Promise<Found[]> {
  const dir = coldDirOf(config);
  if (dir !== null) return await folderOf(dir, 'cold.dir');
  const cold = coldOf(config);
  await cold.assertWritable();
  return [ok(`${cold.name} can be written, and has conditional writes`)];
}

/** Whether a folder can be written, or made, and how much its disk takes. */
async function folderOf(path: string, setting: string): Promise<Found[]> {
  const folder = resolve(path);
  const existing = await nearestFolder(folder);
  const [missing = ''] = relative(existing, folder).split(sep);
  const target = await readlink(join(existing, missing)).catch(() => undefined);
  if (missing !== '' && target !== undefined) {
    const advice = `mount its disk or make that folder, or name another one by ${setting}`;
    return [wrong(`${join(existing, missing)} leads to ${target}, which is not there`, advice)];
  }
  const probe = join(existing, `.tapekeep-doctor-${process.pid}`);
  try {
    if (existing === folder) await writeFile(probe, '', { flag: 'wx' });
    else await access(existing, constants.W_OK | constants.X_OK);
  } catch (error) {
    const advice = `make it writable for this user, or name another folder by ${setting}`;
    return [wrong(`${existing} cannot be written (${codeOf(error)})`, advice)];
  } finally {
    await rm(probe, { force: true }).catch(() => undefined);
  }
  const { bavail, bsize } = await statfs(existing);
  const free = bavail * bsize;
  const room = free < GIB ? `${Math.floor(free / MIB)} MiB` : `${(free / GIB).toFixed(1)} GiB`;
  const text = `${room} free on the disk of ${folder}`;
  const isMade = existing === folder ? '' : ' (which is made when it is needed)';
  if (free < LEAST_BYTES) {
    // What lies in it can be seen all the same.
    const writable = ok(`${existing} can be written`);
    return [writable, wrong(text, 'make room there before anything is collected')];
  }
  if (free < LOW_BYTES)
    return [warning(text, 'make room, or see retention and cold in the settings')];
  return [ok(`${text}${isMade}`)];
}

/**
 * Whether the database answers, with a schema that fits, and whose archive it holds.
 *
 * @param onBound called with the exchange whose archive it is, and whether a daemon collects into it
 */
async function databaseOf(
  session: Session,
  onBound: (archive: ArchiveIdentity | null, isCollecting: boolean) => void,
): ReturnType<Look> {
  const { config } = session;
  if (config.database.url === null && !(await hasEmbeddedCluster(config.dataDir))) {
    return [ok('no archive yet; "tapekeep start" makes one with the embedded Postgres')];
  }
  try {
    return await withArchive(session, async (store, { url }) => {
      const archive = await store.archive();
      const isCollecting = await store.inspection.isCollecting();
      onBound(archive, isCollecting);
      return await archiveFound(store, describeDatabase(url), config, { archive, isCollecting });
    });
  } catch (error) {
    if (codeOf(error) !== 'database_not_migrated') throw error;
    // The daemon migrates at its start, unless its login is one of writers.
    return [warning(messageOf(error), 'the start migrates by itself, if its login may')];
  }
}

const OTHER_ADVICE = 'name another database or dataDir, or the exchange that it belongs to';
const MOVED_ADVICE = `a start goes on with it where the exchange shows that it is the same; else ${OTHER_ADVICE}`;
const IDLE_ADVICE =
  'it starts, waits for its exchange, or fills gaps; end it where it hangs: "tapekeep start" is refused, or stands by, until then';

const UNREAD_ADVICE =
  'set cold.serve.host to an address of this machine that the database reaches, and start the daemon again';

const SHARE_ADVICE = 'start a daemon with this collector.share (docs/guides/shares.md)';

async function archiveFound(
  store: Store,
  where: string,
  config: Config,
  { archive, isCollecting }: { archive: ArchiveIdentity | null; isCollecting: boolean },
): ReturnType<Look> {
  const trouble = await coldFolderTrouble(config, store);
  const failureOf = (work: Promise<unknown>) => work.then(() => undefined, messageOf);
  const held = await store.holders();
  const machines = held.holders.flatMap(({ machine }) => machine ?? []);
  const on = machines.length === 0 ? '' : ` on ${machines.join(', ')}`;
  const writer = isCollecting
    ? ok(`${where}: a daemon${on} collects into it`)
    : warning(`${where}: a tapekeep${on} holds it, and collects nothing at present`, IDLE_ADVICE);
  const mayWrite = await store.inspection.mayWrite();
  const isServed = isCollecting && mayWrite && (await hasArchived(store));
  const unread = isServed ? await store.sealing.coldServerTrouble() : null;
  const unstored = mayWrite ? await failureOf(store.inspection.tryStoring()) : undefined;
  return [
    whose(where, config, archive),
    !mayWrite && wrong(`${where}: ${READS_ONLY}`, LOGIN_ADVICE),
    unstored !== undefined && wrong(`${where} stores nothing: ${unstored}`),
    (await store.inspection.isWritten()) && writer,
    ...sharesWithoutHolder(held).map((share) =>
      warning(`${where}: no daemon collects share ${share} of the markets`, SHARE_ADVICE),
    ),
    ...(await store.standbys()).map((one) => ok(`${where}: ${standbyText(one)} stands by`)),
    trouble !== null && warning(trouble.found, trouble.advice),
    unread !== null &&
      warning(
        `${where}: the database cannot reach the daemon for archived rows (${unread})`,
        UNREAD_ADVICE,
      ),
  ];
}

async function hasArchived(store: Store): Promise<boolean> {
  return (await store.sealing.partitions()).some(({ state }) => state === 'archived');
}

function whose(where: string, config: Config, archive: ArchiveIdentity | null): Found {
  const wanted = exchangeNameOf(config);
  if (archive === null) return ok(`${where}: an archive that is still empty`);
  if (archive.name === wanted) return ok(`${where}: the archive of ${wanted}`);
  const text = `${where} holds the archive of ${archive.name}, and the settings name ${wanted}`;
  // The same exchange may have moved: its answer decides, which is looked at next.
  const isOpen = archive.identity !== null && config.exchange.url !== null;
  return isOpen ? warning(text, MOVED_ADVICE) : wrong(text, OTHER_ADVICE);
}

/** Where none of the markets is listed, the start is refused. */
function unlisted(
  missing: readonly string[],
  wanted: readonly string[],
  listed: readonly string[],
): Found {
  const meant = missing.flatMap((market) => nearestName(market, listed) ?? []);
  const hint = meant.length === 0 ? '' : `; did you mean ${meant.join(', ')}?`;
  const found = `it does not list ${missing.join(', ')}`;
  const make = missing.length === wanted.length ? wrong : warning;
  return make(found, `correct markets (TAPEKEEP_MARKETS)${hint}`);
}

/** Returns whether the console can listen. */
async function portOf({ config }: Session, isCollecting: boolean): Promise<Found[]> {
  const { enabled, host, port } = config.http;
  if (!enabled) return [ok('switched off (http.enabled)')];
  const code = await new Promise<string | undefined>((resolve) => {
    const server = createServer();
    server.once('error', (error) => resolve(codeOf(error)));
    server.listen({ host, port, exclusive: true }, () => server.close(() => resolve(undefined)));
  });
  if (code === undefined) {
    return [
      ok(port === 0 ? `a free port on ${host} is picked` : `port ${port} on ${host} is free`),
    ];
  }
  if (code !== 'EADDRINUSE') return [wrong(`cannot listen on ${host}:${port} (${code})`)];
  const found = `port ${port} on ${host} is taken`;
  if (isCollecting) return [ok(`${found} by the daemon, as it seems`)];
  return [warning(found, 'set http.port (TAPEKEEP_HTTP_PORT) to a free one, or 0')];
}

/** Names the receiver of notices; whether it takes one shows with the first. */
function noticesOf({ alerts: { webhook, format } }: Config): Found {
  if (webhook === null) return ok('sent to no one (alerts.webhook)');
  return ok(`sent to ${new URL(webhook).host} as ${format} (alerts.webhook)`);
}

/** An answer of the real-time interface that takes longer does not come. */
const FEED_LIMIT_MS = 15_000;
/** What is farther off than this shows that a clock is not set by the network. */
const CLOCK_LIMIT_MS = 2000;

/**
 * Whether the exchange answers, lists the chosen markets, and agrees about the time.
 *
 * @param bound the archive's exchange, where it is known
 */
async function exchangeOf(session: Session, bound: ArchiveIdentity | null): ReturnType<Look> {
  const { config, exchangeTime } = session;
  const { url } = config.exchange;
  if (url === null)
    return [
      ok(
        "the built-in sandbox; it uses this machine's clock, and /readyz of the daemon shows its health",
      ),
    ];
  const realtimeUrl = config.realtime.url;
  const address = { url, realtimeUrl };
  const proxies = proxiesOf(session, address);
  await using access = openExchange(session, address);
  const { signal } = new AbortController();
  const sentMs = systemClock.monotonicMs();
  const identity = await firstAnswer(access, signal, session, 1);
  const tookMs = systemClock.monotonicMs() - sentMs;
  await refuseOtherDialect(access, signal);
  const { data } = await access.client.markets();
  const names = data.map(({ name }) => name);
  const missing = config.markets.filter((market) => !names.includes(market));
  const other = bound && otherExchange(bound, archiveIdentityOf(config, identity));
  const candidates = config.markets.filter((market) => names.includes(market)).concat(names);
  const [first] = candidates;
  return [
    ok(`${url} answers in ${shownDuration(tookMs)} and lists ${countOf(names.length, 'market')}`),
    proxies !== null && ok(`the way to it goes through a proxy: ${proxies}`),
    other && wrong(other.message),
    ...endpointsFound(access.dialect, await checkEndpoints(access, candidates)),
    missing.length > 0 && unlisted(missing, config.markets, names),
    realtimeUrl !== null &&
      first !== undefined &&
      (await feedOf(access.openStateFeed(first, 86_400), realtimeUrl)),
    clockOf(exchangeTime.offsetMs, exchangeKindOf(identity)),
  ];
}

/** Endpoints whose rows the daemon stores. The others are only for "tapekeep api". */
const COLLECTED: ReadonlySet<EndpointName> = new Set([
  ...(['markets', 'tickers', 'kline', 'history', 'historyResult', 'depth'] as const),
]);
const FORM_ADVICE = 'its dialect is not known: docs/adding-an-exchange.md says how to describe it';

/** Says in which dialect the exchange responds, and of which endpoint the response cannot be read. */
function endpointsFound(dialect: DialectName, answers: readonly EndpointAnswer[]): Found[] {
  const read = answers.filter(({ outcome }) => outcome === 'read');
  const unsent = answers.flatMap((answer) => answer.unsent);
  const named = read.map(({ endpoint }) => kebabCase(endpoint)).join(', ');
  const nulls = unsent.length === 0 ? '' : `; not sent and stored as null: ${unsent.join(', ')}`;
  const spoken = `it speaks the dialect ${dialect} (exchange.dialect)`;
  return [
    ...(read.length === 0 ? [] : [ok(`${spoken}, and can be read: ${named}${nulls}`)]),
    ...answers.flatMap(({ endpoint, outcome, detail }) => {
      if (outcome === 'read') return [];
      const found = `${kebabCase(endpoint)} cannot be read: ${detail}`;
      if (outcome === 'passing') return [warning(found, 'it may pass: run the doctor again later')];
      return [COLLECTED.has(endpoint) ? wrong(found, FORM_ADVICE) : warning(found, FORM_ADVICE)];
    }),
  ];
}

async function feedOf(feed: StateFeed, url: string): Promise<Found> {
  let failure = 'no answer';
  const opened = (async () => {
    for await (const event of feed) {
      if (event.kind === 'opened') return;
      if (event.kind === 'closed') failure = event.detail ?? event.reason;
    }
  })();
  const isInTime = await endsInTime(systemClock, FEED_LIMIT_MS, opened);
  await feed.stop();
  const shown = redactUrl(url);
  if (isInTime) return ok(`${shown} (realtime.url) takes subscriptions`);
  return wrong(
    `${shown} does not open (${failure})`,
    'correct realtime.url (TAPEKEEP_REALTIME_URL)',
  );
}

/**
 * @param offsetMs of the exchange's clock from that of this machine
 * @param kind of the exchange: the time of a sandbox or a replay may be another one on purpose
 */
function clockOf(offsetMs: number, kind: ExchangeKind): Found {
  if (Math.abs(offsetMs) <= CLOCK_LIMIT_MS) return ok('its clock and that of this machine agree');
  const off = shownDuration(Math.abs(offsetMs));
  if (kind !== 'exchange') {
    const side = offsetMs > 0 ? 'ahead of' : 'behind';
    return ok(`it plays a time of its own, at present ${off} ${side} this machine's`);
  }
  const side = offsetMs > 0 ? 'behind' : 'ahead of';
  return warning(
    `the clock of this machine is ${off} ${side} the exchange's`,
    "let it be set by the network (NTP); times are the exchange's all the same",
  );
}
