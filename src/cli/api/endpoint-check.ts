import type { Reply } from '../../client/index.js';
import { dialectOf, type Params } from '../../contract/dialects.js';
import { type EndpointName, endpointNames, endpoints } from '../../contract/endpoints.js';
import { codeOf, messageOf } from '../../kernel/errors.js';
import { type ExchangeAccess, mayPass } from '../opening/exchange.js';
import { countOf } from '../output.js';

/** Candles that are asked for, of a minute: closed ones. */
const CANDLES = 10;
const MINUTE_S = 60;
/** Markets that are tried, because the first may be closed. */
const MARKETS_MAX = 3;

/** Response of one endpoint to one request. */
export interface EndpointAnswer {
  readonly endpoint: EndpointName;
  /** `passing`: a failure that says nothing of the endpoint, such as a closed market or a timeout. */
  readonly outcome: 'read' | 'passing' | 'failed';
  /** Why it was not read whole; empty where it was. */
  readonly detail: string;
  /** Fields that are null, because the exchange does not send them. */
  readonly unsent: readonly string[];
}

/**
 * Requests each public endpoint that the dialect has once.
 *
 * @param names markets, of which the first that is available is asked about
 */
export async function checkEndpoints(
  access: ExchangeAccess,
  names: readonly string[],
): Promise<EndpointAnswer[]> {
  const answers: EndpointAnswer[] = [];
  const markets = names.slice(0, MARKETS_MAX);
  for (const endpoint of endpointNames) {
    const isPublic = endpoints[endpoint].access === 'public';
    if (!isPublic || dialectOf(access.dialect).endpoints[endpoint] === undefined) continue;
    answers.push(await checkEndpoint(access, endpoint, markets));
  }
  return answers;
}

/** @param markets loses those that are not available */
async function checkEndpoint(
  access: ExchangeAccess,
  endpoint: EndpointName,
  markets: string[],
): Promise<EndpointAnswer> {
  const isOfMarket = 'market' in endpoints[endpoint].params.shape;
  const [market] = markets;
  if (isOfMarket && market === undefined) {
    return { endpoint, outcome: 'passing', detail: 'no market is available', unsent: [] };
  }
  const params = paramsOf(endpoint, market ?? '', access.time.nowMs() / 1000);
  try {
    const { data, rejected }: Reply<unknown> = await access.client.call(endpoint, params as never);
    const [first] = rejected;
    const unsent = [...nullFieldsOf(data)].map((field) => `${endpoint}.${field}`);
    if (first === undefined) return { endpoint, outcome: 'read', detail: '', unsent };
    const detail = `${countOf(rejected.length, 'row')} refused, the first for ${first.reason}`;
    return { endpoint, outcome: 'failed', detail, unsent };
  } catch (error) {
    // A request of nothing but a market is refused for the market.
    const isAlone = Object.keys(endpoints[endpoint].params.shape).length === 1;
    const code = codeOf(error);
    const isOfThisMarket =
      isOfMarket && (code === 'market_unavailable' || (isAlone && code === 'invalid_input'));
    if (isOfThisMarket) {
      markets.shift();
      return await checkEndpoint(access, endpoint, markets);
    }
    const outcome = mayPass(error) ? 'passing' : 'failed';
    return { endpoint, outcome, detail: `${code}: ${messageOf(error)}`, unsent: [] };
  }
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

/** Names of fields that are null somewhere in a result. */
function nullFieldsOf(data: unknown, names = new Set<string>()): Set<string> {
  if (typeof data !== 'object' || data === null) return names;
  for (const [name, value] of Object.entries(data)) {
    if (value === null) names.add(name);
    else nullFieldsOf(value, names);
  }
  return names;
}
