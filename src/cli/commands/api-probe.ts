import { InvalidInputError, MarketUnavailableError, type Reply } from '../../client/index.js';
import { assertFeedAddress } from '../../client/realtime/reconnecting.js';
import { type Departure, departuresOfAnswer } from '../../contract/departures.js';
import {
  type DialectName,
  dialectNames,
  dialectOf,
  type Params,
  type SpokenEndpoint,
} from '../../contract/dialects.js';
import {
  type EndpointName,
  endpointNames,
  endpoints,
  type ResultOf,
} from '../../contract/endpoints.js';
import { sleep, systemClock } from '../../kernel/clock.js';
import { compareDecimals, decimalSign } from '../../kernel/decimal.js';
import { codeOf, messageOf } from '../../kernel/errors.js';
import { type ApiOptions, EXCHANGE_OPTIONS, openApi, openApiSession } from '../api/access.js';
import { probeRealtime, type RealtimeFinding } from '../api/realtime-probe.js';
import { argument, choice, command, nothing, option } from '../command.js';
import { EXIT_CODES, type ExitCode } from '../failure.js';
import type { ExchangeAccess } from '../opening/exchange.js';
import { JSON_DOCUMENT, timeoutArgument } from '../options.js';
import { countOf, jsonLine, printable, writeOut } from '../output.js';

/** Between two questions: an exchange that is asked for the first time is asked gently. */
const PAUSE_MS = 1000;
/** Candles that are asked for, of a minute: closed ones. */
const CANDLES = 10;
const MINUTE_S = 60;
/** Markets that are tried after one that is not available. */
const OTHERS_MAX = 3;
const DEFAULT_WAIT_MS = 10_000;

/** What one endpoint answered in one dialect. */
interface Finding {
  readonly dialect: DialectName;
  readonly endpoint: EndpointName;
  /** `unavailable`: for the market alone, which says nothing of the dialect. */
  readonly outcome: 'ok' | 'failed' | 'unavailable';
  /** What went wrong, or is to be known of a good answer; may be empty. */
  readonly detail: string;
  /** How a good answer departs from the contract, and its question. */
  readonly departures: readonly Departure[];
}

/** What is said of one dialect besides. */
interface Remark {
  readonly dialect: DialectName;
  readonly remark: string;
}

/** Asks every public endpoint of an exchange once in each dialect, before anybody trusts what it says. */
export const probe = command({
  args: {
    market: argument<string | undefined>(
      'the market to ask about (default: the one that is traded most)',
    ),
  },
  options: {
    url: EXCHANGE_OPTIONS.url,
    dialect: choice('--dialect <name>', 'ask in this one only', dialectNames),
    realtime: option(
      '--realtime-url <address>',
      'real-time address, in place of the setting; without any, real time is not asked',
    ),
    waitMs: option(
      '--wait <duration>',
      'how long each real-time answer and update is waited for',
      timeoutArgument,
      DEFAULT_WAIT_MS,
      '10s',
    ),
    json: JSON_DOCUMENT,
  },
  needs: nothing,
  async run(common, { market, dialect, url, realtime: given, waitMs, json }): Promise<ExitCode> {
    const print = json ? () => Promise.resolve() : writeOut;
    const session = openApiSession({ ...common, url, dialect });
    const { config, telemetry } = session;
    const realtimeUrl = given ?? config.realtime.url;
    if (realtimeUrl !== null) assertFeedAddress(realtimeUrl);

    const findings: Finding[] = [];
    const remarks: Remark[] = [];
    const markets = new Map<DialectName, Markets>();
    for (const one of dialect === undefined ? dialectNames : [dialect]) {
      const own = new Markets(market);
      markets.set(one, own);
      for await (const found of ask({ ...common, url, dialect: one }, own)) {
        if ('remark' in found) remarks.push(found);
        else findings.push(found);
        await print(lineOf(found));
      }
    }
    const fits = bestOf(findings);
    await print(conclusionOf(fits, findings));

    let realtime: { url: string; isFollowed: boolean; findings: RealtimeFinding[] } | null = null;
    if (realtimeUrl === null) await print(REALTIME_NOT_ASKED);
    else {
      const heard: RealtimeFinding[] = [];
      const spoken = fits ?? dialect;
      const [found] = [...markets].flatMap(([name, { current }]) =>
        current === undefined || (spoken ?? name) !== name ? [] : [current],
      );
      const proxy = session.proxyFor(realtimeUrl);
      const settings = { url: realtimeUrl, telemetry: telemetry.client, waitMs, proxy };
      const dialects = spoken === undefined ? dialectNames : [spoken];
      await print(`\nReal time at ${printable(realtimeUrl)}:\n`);
      for await (const finding of probeRealtime(settings, dialects, market ?? found)) {
        heard.push(finding);
        await print(realtimeLineOf(finding));
      }
      const isFollowed = heard.some(
        ({ step, outcome }) => step === 'subscribe' && outcome === 'ok',
      );
      await print(isFollowed ? FOLLOWED : NOT_FOLLOWED);
      realtime = { url: realtimeUrl, isFollowed, findings: heard };
    }
    const document = { fits: fits ?? null, findings, remarks, realtime };
    if (json) await writeOut(jsonLine(document));
    const isGood = fits !== undefined && realtime?.isFollowed !== false;
    return isGood ? EXIT_CODES.ok : EXIT_CODES.exchange;
  },
});

const REALTIME_NOT_ASKED =
  'Real time was not asked: add --realtime-url ADDRESS (ws:// or wss://), or set realtime.url.\n';
const FOLLOWED = 'States can be followed in this way.\n';
const NOT_FOLLOWED = 'States cannot be followed: no known way to subscribe was acknowledged.\n';

/** The markets that may be asked about, the best first; a named one alone. */
class Markets {
  readonly #names: string[];
  /** Those that are not available. */
  readonly refused: string[] = [];

  constructor(named: string | undefined) {
    this.#names = named === undefined ? [] : [named];
  }

  /** Undefined: none is left that may be tried. */
  get current(): string | undefined {
    return this.refused.length > OTHERS_MAX ? undefined : this.#names[this.refused.length];
  }

  /** Takes them in the exchange's order. */
  list(markets: ResultOf<'markets'>): void {
    if (this.#names.length === 0) this.#names.push(...markets.map(({ name }) => name));
  }

  /** Those with a last price before all others, the largest volume in money first. */
  rank(tickers: ResultOf<'tickers'>): void {
    const figure = (market: string) => {
      const { last = '0', deal = null } = tickers[market]?.ticker ?? {};
      return decimalSign(last) === 0 ? '-1' : (deal ?? '0');
    };
    this.#names.sort((one, other) => compareDecimals(figure(other), figure(one)));
  }
}

/** Each public endpoint that the dialect has; only the first one where that fails. */
async function* ask(
  options: ApiOptions,
  markets: Markets,
): AsyncGenerator<Finding | Remark, void, undefined> {
  await using access = openApi(openApiSession(options), 'markets', false);
  const { dialect } = access;
  const lacking: EndpointName[] = [];
  const unasked: EndpointName[] = [];
  for (const endpoint of endpointNames) {
    if (endpoints[endpoint].access !== 'public') continue;
    const spoken = dialectOf(dialect).endpoints[endpoint];
    if (spoken === undefined) lacking.push(endpoint);
    else if (isOfMarket(endpoint) && markets.current === undefined) unasked.push(endpoint);
    else {
      let finding = await askOnce(access, spoken, markets, endpoint);
      while (finding.outcome === 'unavailable' && markets.current !== undefined) {
        const refused = markets.current;
        markets.refused.push(refused);
        if (markets.current === undefined) break;
        yield {
          dialect,
          remark: `${refused} is not available, ${markets.current} is asked about`,
        };
        finding = await askOnce(access, spoken, markets, endpoint);
      }
      yield finding;
      if (endpoint === 'markets' && finding.outcome !== 'ok') {
        yield { dialect, remark: 'nothing else is asked in it' };
        return;
      }
    }
  }
  if (lacking.length > 0) yield { dialect, remark: `not offered: ${lacking.join(', ')}` };
  if (unasked.length === 0) return;
  const { refused } = markets;
  const why = refused.length === 0 ? 'no market is listed' : `not available: ${refused.join(', ')}`;
  yield { dialect, remark: `${why}; not asked therefore: ${unasked.join(', ')}` };
}

const isOfMarket = (endpoint: EndpointName) => 'market' in endpoints[endpoint].params.shape;

async function askOnce(
  { client, time, dialect }: ExchangeAccess,
  spoken: SpokenEndpoint,
  markets: Markets,
  endpoint: EndpointName,
): Promise<Finding> {
  await sleep(systemClock, PAUSE_MS);
  const nowS = time.nowMs() / 1000;
  const params = paramsOf(endpoint, markets.current ?? '', nowS);
  let raw: unknown;
  try {
    const reply: Reply<unknown> = await client.call(endpoint, params as never, {
      onAnswer: ({ body }) => {
        raw = body;
      },
    });
    if (endpoint === 'markets') markets.list(reply.data as ResultOf<'markets'>);
    if (endpoint === 'tickers') markets.rank(reply.data as ResultOf<'tickers'>);
    const departures = [
      ...departuresOfQuestion(endpoint, spoken, params, nowS),
      ...departuresOfAnswer(endpoint, spoken, raw, params),
    ];
    return { dialect, endpoint, ...judge(reply), departures };
  } catch (error) {
    const outcome = isOfThisMarket(endpoint, error) ? 'unavailable' : 'failed';
    const detail = `${codeOf(error)}: ${messageOf(error)}`;
    return { dialect, endpoint, outcome, detail, departures: [] };
  }
}

/** Whether the market alone is refused. Where nothing else is asked for, any input that is refused is the market. */
function isOfThisMarket(endpoint: EndpointName, error: unknown): boolean {
  const isAlone =
    isOfMarket(endpoint) && Object.keys(endpoints[endpoint].params.shape).length === 1;
  return error instanceof MarketUnavailableError
    ? isOfMarket(endpoint)
    : isAlone && error instanceof InvalidInputError;
}

function paramsOf(endpoint: EndpointName, market: string, nowS: number): Params {
  const end = Math.floor(nowS / MINUTE_S - 1) * MINUTE_S;
  const all = {
    ...{ market, side: 'buy', limit: 10, since: 0, lastId: 0 },
    ...{ start: end - (CANDLES - 1) * MINUTE_S, end, interval: MINUTE_S },
  };
  const names = Object.keys(endpoints[endpoint].params.shape);
  return Object.fromEntries(Object.entries(all).filter(([name]) => names.includes(name)));
}

/** How the dialect asks otherwise than the contract. */
function departuresOfQuestion(
  endpoint: EndpointName,
  spoken: SpokenEndpoint,
  params: Params,
  nowS: number,
): Departure[] {
  const asked = spoken.ask(params, nowS);
  const other = Object.entries(asked).filter(([name, value]) => params[name] !== value);
  const fields = {
    'asked at': spoken.path === endpoints[endpoint].path ? [] : [spoken.path],
    'asked with': other.map(([name, value]) => `${name}=${value}`),
    'asked without': Object.keys(params).filter((name) => !Object.hasOwn(asked, name)),
  };
  return Object.entries(fields).flatMap(([what, fields]) =>
    fields.length === 0 ? [] : [{ what, fields }],
  );
}

/** Whether an answer can be read whole, and what is to be known of it besides its form. */
function judge({ data, rejected, isRaised, cachedAtMs, dateMs }: Reply<unknown>) {
  const [first] = rejected;
  const untold = untoldIn(data);
  const remarks = [
    first && `${countOf(rejected.length, 'row')} refused, the first for ${first.reason}`,
    untold.length > 0 && `kept as null: ${untold.join(', ')}`,
    isRaised && 'an offset of 1 was sent in place of 0',
    cachedAtMs !== null && 'from a cache that tells its time',
    dateMs === null && 'without a Date header',
  ];
  const outcome = first === undefined ? ('ok' as const) : ('failed' as const);
  return { outcome, detail: remarks.filter(Boolean).join('; ') };
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

/** What each dialect that was asked in found, where nothing failed in it. */
function withoutFailure(findings: readonly Finding[]): Finding[][] {
  return dialectNames
    .map((name) => findings.filter(({ dialect }) => dialect === name))
    .filter((own) => own.length > 0 && own.every(({ outcome }) => outcome !== 'failed'));
}

/** The dialect in which nothing failed and most was answered, some of it of a market; undefined: there is none. */
function bestOf(findings: readonly Finding[]): DialectName | undefined {
  const [best] = withoutFailure(findings)
    .map((own) => own.filter(({ outcome }) => outcome === 'ok'))
    .filter((good) => good.some(({ endpoint }) => isOfMarket(endpoint)))
    .sort((one, other) => other.length - one.length);
  return best?.[0]?.dialect;
}

const COLUMNS = { dialect: 10, name: 15 };

function lineOf(found: Finding | Remark): string {
  const start = found.dialect.padEnd(COLUMNS.dialect);
  if ('remark' in found) return `${start}${printable(found.remark)}\n`;
  const { endpoint, outcome, detail, departures } = found;
  const what = [outcome === 'ok' && 'ok', detail].filter(Boolean).join('; ');
  const line = `${start}${endpoint.padEnd(COLUMNS.name)}${printable(what)}\n`;
  return `${line}${departureLines(departures)}`;
}

function realtimeLineOf({ step, sent, outcome, detail, departures }: RealtimeFinding): string {
  const what = [outcome, detail].filter(Boolean).join(': ');
  const start = step.padEnd(COLUMNS.dialect + COLUMNS.name);
  const line = `${start}${printable(sent === '' ? what : `${what}; ${sent}`)}\n`;
  return `${line}${departureLines(departures)}`;
}

function departureLines(departures: readonly Departure[]): string {
  const indent = ' '.repeat(COLUMNS.dialect + COLUMNS.name + 2);
  return departures
    .map(({ what, fields }) => `${indent}${printable(`${what}: ${fields.join(', ')}`)}\n`)
    .join('');
}

function conclusionOf(fits: DialectName | undefined, findings: readonly Finding[]): string {
  if (fits !== undefined) {
    const own = findings.filter(({ dialect }) => dialect === fits);
    const departing = own.filter(({ departures }) => departures.length > 0);
    const how =
      departing.length === 0
        ? 'as the contract says'
        : `${departing.length} of them otherwise than the contract says, which is read all the same`;
    const setting =
      fits === 'contract'
        ? 'nothing has to be set'
        : `set exchange.dialect: ${fits} (TAPEKEEP_EXCHANGE_DIALECT)`;
    return `${fits} fits: ${own.length} endpoints were answered, ${how}; ${setting}.\n`;
  }
  return withoutFailure(findings).length > 0
    ? 'Which dialect fits cannot be said: no market could be asked about.\n'
    : 'No dialect fits: each fails somewhere. What does not fit would be refused, not stored.\n';
}
