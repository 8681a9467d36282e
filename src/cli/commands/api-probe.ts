import type { Reply } from '../../client/index.js';
import { type DialectName, dialectNames, dialectOf } from '../../contract/dialects.js';
import { type EndpointName, endpointNames, endpoints } from '../../contract/endpoints.js';
import { sleep, systemClock } from '../../kernel/clock.js';
import { codeOf, messageOf } from '../../kernel/errors.js';
import { type ApiOptions, EXCHANGE_OPTIONS, openApi, openApiSession } from '../api/access.js';
import { argument, choice, command, flag, nothing } from '../command.js';
import { EXIT_CODES, type ExitCode } from '../failure.js';
import { jsonLine, printable, writeOut } from '../output.js';

/** Between two questions: an exchange that is asked for the first time is asked gently. */
const PAUSE_MS = 1000;
/** Candles that are asked for, of a minute: closed ones. */
const CANDLES = 10;
const MINUTE_S = 60;

/** What one endpoint answered in one dialect. */
interface Finding {
  readonly dialect: DialectName;
  readonly endpoint: EndpointName;
  readonly isGood: boolean;
  /** How it departs from the contract, or what went wrong; empty: not at all. */
  readonly detail: string;
}

/** Asks every public endpoint of an exchange once in each dialect, before anybody trusts what it says. */
export const probe = command({
  args: {
    market: argument<string | undefined>('the market to ask about (default: the first listed)'),
  },
  options: {
    url: EXCHANGE_OPTIONS.url,
    dialect: choice('--dialect <name>', 'ask in this one only', dialectNames),
    json: flag('--json', 'one JSON document'),
  },
  needs: nothing,
  async run(common, { market, dialect, url, json }): Promise<ExitCode> {
    const findings: Finding[] = [];
    for (const one of dialect === undefined ? dialectNames : [dialect]) {
      const options = { ...common, url, dialect: one };
      for await (const finding of ask(options, one, market)) {
        findings.push(finding);
        if (json !== true) await writeOut(lineOf(finding));
      }
    }
    const fitting = bestOf(findings);
    if (json === true) await writeOut(jsonLine({ fits: fitting ?? null, findings }));
    else await writeOut(conclusionOf(fitting, findings));
    return fitting === undefined ? EXIT_CODES.exchange : EXIT_CODES.ok;
  },
});

/** Each public endpoint that the dialect has; only the first one where that fails. */
async function* ask(
  options: ApiOptions,
  dialect: DialectName,
  named: string | undefined,
): AsyncGenerator<Finding, void, undefined> {
  const access = openApi(openApiSession(options), 'markets', false);
  const { client, time } = access;
  let market = named;
  try {
    for (const endpoint of endpointNames) {
      const isOffered = dialectOf(dialect).endpoints[endpoint] !== undefined;
      if (endpoints[endpoint].access !== 'public' || !isOffered) continue;
      await sleep(systemClock, PAUSE_MS);
      try {
        const params = paramsOf(endpoint, market ?? '', time.nowMs() / 1000);
        const reply = await client.call(endpoint, params as never);
        if (endpoint === 'markets') market ??= (reply as Reply<{ name: string }[]>).data[0]?.name;
        yield { dialect, endpoint, ...judge(reply) };
      } catch (error) {
        const detail = `${codeOf(error)}: ${messageOf(error)}`;
        yield { dialect, endpoint, isGood: false, detail };
        if (endpoint === 'markets') return;
      }
    }
  } finally {
    await access.close();
  }
}

function paramsOf(endpoint: EndpointName, market: string, nowS: number): object {
  const end = Math.floor(nowS / MINUTE_S - 1) * MINUTE_S;
  const all = {
    ...{ market, side: 'buy', limit: 10, since: 0, lastId: 0 },
    ...{ start: end - (CANDLES - 1) * MINUTE_S, end, interval: MINUTE_S },
  };
  const names = Object.keys(endpoints[endpoint].params.shape);
  return Object.fromEntries(Object.entries(all).filter(([name]) => names.includes(name)));
}

/** Whether an answer is of the contract, and what of it is not. */
function judge({ data, rejected, isRaised, cachedAtMs, dateMs }: Reply<unknown>) {
  const [first] = rejected;
  const untold = untoldIn(data);
  const departures = [
    first === undefined ? '' : `${rejected.length} rows refused, the first for ${first.reason}`,
    untold.length === 0 ? '' : `not told: ${untold.join(', ')}`,
    isRaised ? 'an offset of 0 is refused, 1 was sent' : '',
    cachedAtMs === null ? '' : 'from a cache that tells its time',
    dateMs === null ? 'without a Date header' : '',
  ];
  return {
    isGood: rejected.length === 0,
    detail: departures.filter((text) => text !== '').join('; '),
  };
}

/** Names of fields that are null somewhere in a result. */
function untoldIn(data: unknown): string[] {
  const names = new Set<string>();
  const look = (value: unknown): void => {
    if (typeof value !== 'object' || value === null) return;
    for (const [name, held] of Object.entries(value)) {
      if (held === null) names.add(name);
      else look(held);
    }
  };
  look(data);
  return [...names];
}

/** The dialect in which nothing failed and most was answered; undefined: there is none. */
function bestOf(findings: readonly Finding[]): DialectName | undefined {
  const counts = dialectNames.map((name) => {
    const own = findings.filter(({ dialect }) => dialect === name);
    return { name, count: own.every(({ isGood }) => isGood) ? own.length : 0 };
  });
  const best = counts.reduce((one, other) => (other.count > one.count ? other : one));
  return best.count === 0 ? undefined : best.name;
}

const COLUMNS = { dialect: 10, endpoint: 15 };

function lineOf({ dialect, endpoint, isGood, detail }: Finding): string {
  const what = isGood ? `ok${detail === '' ? '' : `; ${detail}`}` : detail;
  const start = dialect.padEnd(COLUMNS.dialect) + endpoint.padEnd(COLUMNS.endpoint);
  return `${start}${printable(what)}\n`;
}

function conclusionOf(fitting: DialectName | undefined, findings: readonly Finding[]): string {
  if (fitting === undefined) {
    return 'No dialect fits: each fails somewhere. What it answers would be refused, not stored.\n';
  }
  const count = findings.filter(({ dialect }) => dialect === fitting).length;
  const setting =
    fitting === 'contract'
      ? 'nothing has to be set'
      : `set exchange.dialect: ${fitting} (TAPEKEEP_EXCHANGE_DIALECT)`;
  return `${fitting} fits: all ${count} endpoints that it has were answered; ${setting}.\n`;
}
