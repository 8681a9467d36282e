import type { FastifyInstance, FastifyRequest } from 'fastify';
import { z } from 'zod';
import { onlyKeys } from '../../contract/shape.js';
import type { Backend, MarketControl } from '../backend.js';
import type { ServerContext } from '../context.js';
import type { InterferenceControl } from '../faults.js';
import { addControlRoutes, CONTROL_PREFIX, readBody, readJson } from './control-replies.js';
import { addReplayControl } from './replay-control.js';
import { addTruthControl } from './truth-control.js';

/** The markets of a backend that gets no others; undefined where some may come. */
export function marketsForGood(backend: Backend): readonly string[] | undefined {
  if (backend.marketControl?.isOpen === true) return undefined;
  const markets = backend.markets();
  return markets instanceof Promise ? undefined : markets.map(({ name }) => name);
}

/**
 * The paths below `/sandbox/` that steer the served exchange and show its secrets, as far as it has
 * what they steer. Without `control` there are none of them; those of a recording, below `/replay/`,
 * then say so.
 */
export function addControl(server: FastifyInstance, context: ServerContext): void {
  const { backend, interference, control = false } = context;
  const { clockControl, marketControl } = backend;
  addControlRoutes(server, (app) => {
    if (clockControl !== undefined) addReplayControl(app, clockControl, control);
    if (!control) return;
    addTruthControl(app, backend);
    const faults = interference?.control;
    if (faults !== undefined) addFaultsControl(app, faults, () => marketsForGood(backend));
    if (marketControl !== undefined) addMarketsControl(app, marketControl);
  });
}

/** Largest fault script, bytes. */
const SCRIPT_MAX_BYTES = 256 * 1024;

/**
 * `/sandbox/faults` to read (GET), replace (PUT) and end (DELETE) what goes wrong. A script that is
 * not usable is refused, and the old one stays in force.
 *
 * @param markets those that rules may name; undefined where others may come
 */
function addFaultsControl(
  app: FastifyInstance,
  control: InterferenceControl,
  markets: () => readonly string[] | undefined,
): void {
  const path = `${CONTROL_PREFIX}faults`;
  app.get(path, () => control.describe());
  app.delete(path, () => {
    control.clear();
    return control.describe();
  });
  app.put(path, { bodyLimit: SCRIPT_MAX_BYTES }, (request) => {
    control.replace(readJson(request), markets());
    return control.describe();
  });
}

/** Largest description of a market, bytes. */
const MARKET_MAX_BYTES = 16 * 1024;
const text = z.string('a text, in quotes');
const MARKET = onlyKeys({ market: text });
const DEPOSIT = onlyKeys({ account: text, currency: text, amount: text });

/**
 * Markets and funds from outside, each a POST of JSON: `/sandbox/markets` lists a market, its paths
 * `/delist`, `/block` and `/unblock` end it and close or open it for orders, `/sandbox/deposits` gives
 * funds. GET of `/sandbox/markets` shows all markets with their states.
 */
function addMarketsControl(app: FastifyInstance, control: MarketControl): void {
  const markets = `${CONTROL_PREFIX}markets`;
  const add = (path: string, change: (request: FastifyRequest) => object) => {
    app.post(path, { bodyLimit: MARKET_MAX_BYTES }, change);
  };
  const marketOf = (request: FastifyRequest) => readBody(request, MARKET).market;
  app.get(markets, () => control.describe());
  add(markets, (request) => control.create(readJson(request)));
  add(`${markets}/delist`, (request) => control.delist(marketOf(request)));
  add(`${markets}/block`, (request) => control.block(marketOf(request), true));
  add(`${markets}/unblock`, (request) => control.block(marketOf(request), false));
  add(`${CONTROL_PREFIX}deposits`, (request) => {
    const { account, currency, amount } = readBody(request, DEPOSIT);
    return control.deposit(account, currency, amount);
  });
}
