import type { EndpointName } from '../../contract/endpoints.js';
import type { Clock } from '../../kernel/clock.js';
import type {
  ConnectionInterference,
  HttpAsked,
  HttpDelivery,
  HttpReply,
  Interference,
  InterferenceControl,
} from '../../server/faults.js';
import { FaultScriptError } from '../errors.js';
import { FaultyConnection } from './frames.js';
import { shapeOf } from './kinds.js';
import { spoilReply } from './replies.js';
import { ReplyRows } from './rows.js';
import { drawLatency, type FaultCount, RuleState } from './rule-state.js';
import { type FaultRule, type FaultRuleInput, readFaultScript } from './script.js';

const DEFAULT_SEED = 7;

interface FaultOptions {
  /** The rules in the order in which they are asked; checked, whatever their type claims. */
  readonly rules: readonly FaultRuleInput[];
  /** Draws every decision; default 7. */
  readonly seed?: number;
  readonly clock: Clock;
}

interface Script {
  readonly seed: number;
  readonly states: readonly RuleState[];
}

/**
 * Faults on demand, for a server that asks about every reply, connection and frame.
 *
 * Of the rules that apply to an event, the first that fires is carried out and ends the search;
 * `latency` alone adds its delay and leaves the rest to the rules behind it. So every fired fault is
 * seen by the client, and counts can be compared with what it saw. The same seed and the same
 * sequence of requests make the same faults.
 */
export class Faults implements Interference {
  readonly #clock: Clock;
  readonly #defaultSeed: number;
  #script: Script;

  /** @throws FaultScriptError naming the rule, the key, the value and what is allowed. */
  constructor({ rules, seed, clock }: FaultOptions) {
    this.#clock = clock;
    this.#defaultSeed = seed ?? DEFAULT_SEED;
    this.#script = this.#load(rules);
  }

  /** Counts of each rule since its script took effect, in the order of the rules. */
  report(): FaultCount[] {
    return this.#script.states.map((state) => state.count);
  }

  readonly control: InterferenceControl = {
    describe: () => ({
      seed: this.#script.seed,
      rules: this.#script.states.map(({ rule }) => rule.written),
      report: this.report(),
    }),
    replace: (script, markets) => {
      const loaded = this.#load(script);
      if (markets !== undefined) checkMarkets(loaded, markets);
      this.#script = loaded;
    },
    clear: () => {
      this.#script = this.#load([]);
    },
  };

  /** The markets that rules are for. */
  markets(): Set<string> {
    const { states } = this.#script;
    return new Set(states.flatMap(({ rule }) => rule.market ?? []));
  }

  reply(asked: HttpAsked, reply: HttpReply): HttpDelivery | undefined {
    const { states } = this.#script;
    const nowMs = this.#clock.monotonicMs();
    let waitMs = 0;
    for (const state of states) {
      if (!isAbout(state.rule, asked.endpoint, asked.market)) continue;
      const { rule } = state;
      const older = this.#olderReply(state, asked, reply, nowMs);
      if (isAboutEarlier(rule) && older === undefined) continue;
      const rows = rowsFor(rule, asked.endpoint, reply);
      if (isAboutRows(rule) && rows === undefined) continue;
      const random = state.offer(asked.atMs, nowMs);
      if (random === undefined) continue;
      if (rule.kind === 'latency') {
        waitMs += drawLatency(rule, random);
        continue;
      }
      if (older !== undefined) return { reply: older, waitMs };
      if (rows !== undefined) {
        return { reply: { ...reply, body: rows.spoil(rule, random) }, waitMs };
      }
      if (rule.kind === 'wrongDate') return { reply: redated(state, reply), waitMs };
      const spoilt = spoilReply(rule, random, reply, asked.atMs);
      if (spoilt !== undefined) return { ...spoilt, waitMs };
    }
    return waitMs === 0 ? undefined : { reply, waitMs };
  }

  connection(): ConnectionInterference {
    // The script in force may be another one at each call.
    const rulesAbout = (market: string | undefined) =>
      this.#script.states.filter(({ rule }) => isAbout(rule, 'realtime', market));
    return new FaultyConnection(rulesAbout, this.#clock);
  }

  /** Only what went well is kept: a cache that served errors would be another fault. */
  #olderReply(
    state: RuleState,
    { request, atMs }: HttpAsked,
    reply: HttpReply,
    nowMs: number,
  ): HttpReply | undefined {
    if (!isAboutEarlier(state.rule) || reply.status !== 200) return undefined;
    const key = state.rule.kind === 'stuckPage' ? withoutPage(request) : request;
    const showsCacheTime = state.rule.cacheTime === true;
    const kept = showsCacheTime ? { ...reply, body: withCacheTime(reply.body, atMs) } : reply;
    const older = state.replies.take(key, kept, kept.body.length, nowMs);
    if (older === undefined || older.body === reply.body) return undefined;
    const { date } = reply.headers;
    const isDated = state.rule.oldDate === true || date === undefined;
    return isDated ? older : { ...older, headers: { ...older.headers, date } };
  }

  #load(written: unknown): Script {
    const { seed = this.#defaultSeed, rules } = readFaultScript(written);
    const nowMs = this.#clock.monotonicMs();
    const states = rules.map((rule) => new RuleState(rule, seed, nowMs));
    return { seed, states };
  }
}

function redated(state: RuleState, reply: HttpReply): HttpReply {
  const { date = '', ...others } = reply.headers;
  const { form, byS = 0 } = state.rule;
  if (form === 'missing') return { ...reply, headers: others };
  const shifted = () => new Date(Date.parse(date) + byS * 1000).toUTCString();
  const shown = form === 'frozen' ? state.firstDate(date) : shifted();
  return { ...reply, headers: { ...others, date: shown } };
}

/** An answer that says when a cache took it up; a bare list has no place for it. */
function withCacheTime(body: string, atMs: number): string {
  const parsed = JSON.parse(body) as object;
  return Array.isArray(parsed) ? body : JSON.stringify({ ...parsed, cache_time: atMs / 1000 });
}

/** A rule for a market that never comes would be a fault that silently never fires. */
function checkMarkets({ states }: Script, markets: readonly string[]): void {
  const at = states.findIndex(
    ({ rule }) => rule.market !== undefined && !markets.includes(rule.market),
  );
  const rule = states[at]?.rule;
  if (rule === undefined) return;
  throw new FaultScriptError(
    `rule ${at + 1} (${rule.kind}): market ${JSON.stringify(rule.market)} is not allowed; expected one of ${markets.slice(0, 20).join(', ')}`,
  );
}

function isAbout(
  { kind, where, market }: FaultRule,
  place: EndpointName | 'realtime',
  ofMarket: string | undefined,
): boolean {
  if (market !== undefined && market !== ofMarket) return false;
  if (where !== '*') return where === place;
  const { endpoints, isRealtime } = shapeOf(kind);
  return place === 'realtime' ? isRealtime : endpoints.includes(place);
}

/** Returns true if a rule answers with what was sent before. */
const isAboutEarlier = ({ kind }: FaultRule) => kind === 'stale' || kind === 'stuckPage';

const PAGE_IN_QUERY = /(?<=[?&])(since|lastId|offset)=[^&\s]*/g;
const PAGE_IN_BODY = /"(since|lastId|offset|nonce)"\s*:\s*"?\d*"?/g;

/** A request without what says which page it wants: the same text for all pages of one list. */
function withoutPage(request: string): string {
  return request.replace(PAGE_IN_QUERY, '').replace(PAGE_IN_BODY, '');
}

const isAboutRows = ({ kind }: FaultRule) => shapeOf(kind).isAboutRows;

/** The rows of a reply, when the rule is about rows and its fault can befall these. */
function rowsFor(rule: FaultRule, endpoint: EndpointName, reply: HttpReply): ReplyRows | undefined {
  if (!isAboutRows(rule) || reply.status !== 200) return undefined;
  return ReplyRows.forRule(rule, endpoint, reply.body);
}
