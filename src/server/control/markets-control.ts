import type { FastifyInstance, FastifyRequest } from 'fastify';
import { TapekeepError } from '../../kernel/errors.js';
import { CONTROL_PREFIX, readJson, showResult, steer } from './control-replies.js';
import type { MarketControl } from './market-control.js';

/** Largest description of a market, bytes. */
const BODY_MAX_BYTES = 16 * 1024;

/** The body of a control request cannot be used. */
class ControlBodyError extends TapekeepError {
  constructor(message: string) {
    super('control_body_invalid', 'fatal', message);
  }
}

function show(value: unknown): string {
  const text = JSON.stringify(value) ?? String(value);
  return text.length > 80 ? `${text.slice(0, 80)}…` : text;
}

/** The texts that a body must hold under these names, and nothing else. */
function readTexts<const K extends string>(
  request: FastifyRequest,
  ...names: readonly K[]
): Record<K, string> {
  const body = readJson(request);
  const expected = `expected ${names.join(', ')}`;
  if (typeof body !== 'object' || body === null || Array.isArray(body)) {
    throw new ControlBodyError(
      `the body ${show(body)} is not allowed; ${expected} in a JSON object`,
    );
  }
  for (const name of Object.keys(body)) {
    if (names.some((known) => known === name)) continue;
    throw new ControlBodyError(`unknown field ${show(name)}; ${expected}`);
  }
  const texts = names.map((name): [K, string] => {
    const value: unknown = (body as Partial<Record<K, unknown>>)[name];
    if (value === undefined) throw new ControlBodyError(`${name} is missing; ${expected}`);
    if (typeof value === 'string') return [name, value];
    throw new ControlBodyError(`${name} ${show(value)} is not allowed; expected a text, in quotes`);
  });
  return Object.fromEntries(texts) as Record<K, string>;
}

/**
 * Markets and funds from outside, each a POST of JSON: `/sandbox/markets` lists a market, its paths
 * `/delist`, `/block` and `/unblock` end it and close or open it for orders, `/sandbox/deposits` gives
 * funds. GET of `/sandbox/markets` shows all markets with their states.
 */
export function addMarketsControl(app: FastifyInstance, control: MarketControl): void {
  const markets = `${CONTROL_PREFIX}markets`;
  const add = (path: string, change: (request: FastifyRequest) => object) => {
    app.post(path, { bodyLimit: BODY_MAX_BYTES }, (request, reply) =>
      steer(reply, () => change(request)),
    );
  };
  const marketOf = (request: FastifyRequest) => readTexts(request, 'market').market;
  app.get(markets, (_request, reply) => showResult(reply, control.describe()));
  add(markets, (request) => control.create(readJson(request)));
  add(`${markets}/delist`, (request) => control.delist(marketOf(request)));
  add(`${markets}/block`, (request) => control.block(marketOf(request), true));
  add(`${markets}/unblock`, (request) => control.block(marketOf(request), false));
  add(`${CONTROL_PREFIX}deposits`, (request) => {
    const { account, currency, amount } = readTexts(request, 'account', 'currency', 'amount');
    return control.deposit(account, currency, amount);
  });
}
