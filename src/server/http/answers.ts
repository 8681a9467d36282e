import type { OutgoingHttpHeaders } from 'node:http';
import type { FastifyReply } from 'fastify';
import type { SpokenEndpoint } from '../../contract/dialects.js';
import type { EndpointName, FilledParamsOf, ResultOf } from '../../contract/endpoints.js';
import { successEnvelope } from '../../contract/error-shapes.js';
import type { ServerVariants } from '../../contract/variants.js';
import { SECOND_US } from '../../kernel/durations.js';
import type { Accounts, Awaitable, Backend, BackendTrade } from '../backend.js';
import { AUTHENTICATION_FAILURE, JSON_TYPE, ReplyError } from './replies.js';

/** The JSON text of an answer: in one piece, or in parts that are at hand. */
export type AnswerText = string | readonly Uint8Array[];

export function sendJson(reply: FastifyReply, text: string): FastifyReply {
  return reply.type(JSON_TYPE).send(text);
}

/**
 * Sends an answer; parts go out just as they are. To join them would take memory anew for every
 * page, and to give that back costs several times what all else of a reply does.
 *
 * @param inOnePiece whether the whole text is read before it is sent
 */
export function sendAnswer(
  reply: FastifyReply,
  answer: AnswerText,
  inOnePiece: boolean,
): FastifyReply {
  if (typeof answer === 'string') return sendJson(reply, answer);
  // Node would put the head of parts before the `100 Continue` of a pipelined request.
  const isExpecting = reply.request.headers.expect !== undefined;
  if (inOnePiece || isExpecting) return sendJson(reply, Buffer.concat(answer).toString());
  const { raw } = reply.type(JSON_TYPE).hijack();
  if (raw.destroyed) return reply;
  const length = answer.reduce((sum, part) => sum + part.length, 0);
  const headers = { ...reply.getHeaders(), 'content-length': length } as OutgoingHttpHeaders;
  raw.writeHead(reply.statusCode, headers);
  // All parts in one call of the system.
  raw.cork();
  for (const part of answer) raw.write(part);
  raw.end();
  return reply;
}

/** Everything an answer may depend on. */
interface AnswerContext {
  readonly backend: Backend;
  readonly variants: ServerVariants;
  readonly endpoint: SpokenEndpoint;
  /** The sender of a signed request; empty on the open GET form. */
  readonly apiKey: string;
}

type Answer<N extends EndpointName> = (
  context: AnswerContext,
  params: FilledParamsOf<N>,
) => ResultOf<N> | Promise<ResultOf<N>>;

/**
 * One page of trades, newest first. Under `skip` the number counts trades to leave out; under `id`
 * it is the id that all returned trades exceed, and what does not fit the page is out of reach
 * (field notes, since / lastId).
 */
async function tradePage(
  { backend, variants }: AnswerContext,
  market: string,
  since: number,
  limit: number,
): Promise<readonly BackendTrade[]> {
  const size = Math.min(limit, variants.pageCap ?? limit);
  if (variants.sinceMode === 'skip') return backend.trades(market, since, size);
  const newest = await backend.trades(market, 0, size);
  return newest.filter(({ id }) => id > since);
}

/** Those that know the sender of a signed request. */
function accountsOf({ backend: { accounts } }: AnswerContext): Accounts {
  if (accounts === undefined) throw new ReplyError(AUTHENTICATION_FAILURE);
  return accounts;
}

/** How each endpoint gets its result from the backend. */
const answers: { readonly [N in EndpointName]: Answer<N> } = {
  markets: ({ backend }) => backend.markets(),
  async products({ backend }) {
    const markets = await backend.markets();
    return markets.map(({ name, stock, money }) => ({
      id: name,
      fromSymbol: stock,
      toSymbol: money,
    }));
  },
  tickers: ({ backend }) => backend.tickers(),
  ticker: ({ backend }, { market }) => backend.ticker(market),
  async kline({ backend }, { market, start, end, interval }) {
    const query = { market, startS: start, endS: end, intervalS: interval };
    return { market, start, end, interval, kline: await backend.kline(query) };
  },
  async history(context, { market, lastId, limit }) {
    const trades = await tradePage(context, market, lastId, limit);
    return trades.map(({ id, timeUs, price, side, amount, total }) => {
      return { id, time: timeUs / SECOND_US, price, type: side, amount, total };
    });
  },
  async historyResult(context, { market, since, limit }) {
    const trades = await tradePage(context, market, since, limit);
    return trades.map(({ id, timeUs, price, side, amount, total }) => {
      return { tid: id, date: Math.floor(timeUs / SECOND_US), price, type: side, amount, total };
    });
  },
  async depth({ backend, variants }, { market, limit }) {
    const { asks, bids } = await backend.depth(market, limit);
    return { asks, bids: variants.bidsOrder === 'best' ? bids : [...bids].reverse() };
  },
  async book({ backend }, { market, side, offset, limit }) {
    const { total, rows } = await backend.book(market, side, offset, limit);
    return { offset, limit, total, orders: [...rows] };
  },
  balances: (context) => accountsOf(context).balances(context.apiKey),
  orderNew: (context, order) => accountsOf(context).placeOrder(context.apiKey, order),
  async orders(context, { market, offset, limit }) {
    const accounts = accountsOf(context);
    const { total, rows } = await accounts.activeOrders(context.apiKey, market, offset, limit);
    return { limit, offset, total, result: [...rows] };
  },
};

/** A page of trades as the backend has it written, where it has and the server has not to choose. */
function readyParts<N extends EndpointName>(
  name: N,
  { backend, variants, endpoint }: AnswerContext,
  params: FilledParamsOf<N>,
): readonly Uint8Array[] | undefined {
  if (name !== 'history' && name !== 'historyResult') return undefined;
  if (endpoint.tell !== undefined) return undefined;
  if (backend.tradesText === undefined || variants.sinceMode !== 'skip') return undefined;
  if (name === 'history' && variants.historyTotal === 'omitted') return undefined;
  const page = params as FilledParamsOf<'history' | 'historyResult'>;
  const skip = 'lastId' in page ? page.lastId : page.since;
  const size = Math.min(page.limit, variants.pageCap ?? page.limit);
  return backend.tradesText(name, page.market, skip, size);
}

const [START = '', END = ''] = JSON.stringify(successEnvelope('@')).split('"@"');
const START_BYTES = Buffer.from(START);
const END_BYTES = Buffer.from(END);

function jsonText(result: unknown, isInEnvelope: boolean): string {
  return JSON.stringify(isInEnvelope ? successEnvelope(result) : result);
}

/** The JSON text of an endpoint's answer, inside its envelope if it has one; at once if it can be. */
export function answerText<N extends EndpointName>(
  name: N,
  context: AnswerContext,
  params: FilledParamsOf<N>,
): Awaitable<AnswerText> {
  const { variants, endpoint } = context;
  const isSwapped = variants.envelopes === 'swapped' && endpoint.access === 'public';
  const envelope = isSwapped ? !endpoint.envelope : endpoint.envelope;
  const parts = readyParts(name, context, params);
  if (parts !== undefined) {
    return envelope ? [START_BYTES, ...parts, END_BYTES] : parts;
  }
  const written = (result: unknown) => {
    const sent = varied(name, result, variants);
    return jsonText(endpoint.tell?.(sent) ?? sent, envelope);
  };
  const result: unknown = answers[name](context, params);
  return result instanceof Promise ? result.then(written) : written(result);
}

type Fields = Readonly<Record<string, unknown>>;

function without(row: unknown, ...names: readonly string[]): Fields {
  const entries = Object.entries(row as Fields).filter(([name]) => !names.includes(name));
  return Object.fromEntries(entries);
}

const PRECISIONS: ReadonlySet<string> = new Set(['stockPrec', 'moneyPrec', 'feePrec']);

function asText(market: unknown): Fields {
  return Object.fromEntries(
    Object.entries(market as Fields).map(([name, value]) => [
      name,
      PRECISIONS.has(name) ? String(value) : value,
    ]),
  );
}

const rowsOf = (result: unknown) => result as readonly unknown[];

/** The result of an endpoint as a server of these variants sends it. */
function varied(name: EndpointName, result: unknown, variants: ServerVariants): unknown {
  switch (name) {
    case 'history':
      return variants.historyTotal === 'sent'
        ? result
        : rowsOf(result).map((trade) => without(trade, 'total'));
    case 'markets':
      return variants.precisions === 'number' ? result : rowsOf(result).map(asText);
    case 'ticker':
      return variants.tickerName === 'sent' ? result : without(result, 'name');
    case 'tickers':
      return variants.tickerName === 'sent'
        ? result
        : Object.fromEntries(
            Object.entries(result as Readonly<Record<string, Fields>>).map(([market, entry]) => [
              market,
              { ...entry, ticker: without(entry.ticker, 'name') },
            ]),
          );
    case 'book': {
      const { orders, ...header } = result as Fields;
      return variants.bookFees === 'sent'
        ? result
        : { ...header, orders: rowsOf(orders).map((one) => without(one, 'takerFee', 'makerFee')) };
    }
    default:
      return result;
  }
}
