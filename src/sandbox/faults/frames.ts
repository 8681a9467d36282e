import type { Clock } from '../../kernel/clock.js';
import type { Random } from '../../kernel/random.js';
import type {
  ConnectionFate,
  ConnectionInterference,
  FrameDelivery,
  RealtimeAsked,
  RealtimeFrame,
} from '../../server/faults.js';
import { shapeOf } from './kinds.js';
import { ReplyRows } from './rows.js';
import { drawBelow, drawLatency, type RuleState } from './rule-state.js';
import type { FaultRule } from './script.js';

function fateOf({ kind, answers }: FaultRule): ConnectionFate {
  if (kind === 'dropSocket') return 'drop';
  return answers === 'requests' ? 'quiet' : 'mute';
}

/** A frame that says nothing a client could use. */
function garbage({ form }: FaultRule, random: Random): string | Uint8Array {
  const number = drawBelow(random, 1_000_000);
  if (form === 'json') return JSON.stringify({ nonsense: number, id: [null], result: 'x' });
  if (form === 'utf8') return Uint8Array.of(0x7b, 0x22, 0xff, 0xfe, 0xc3, 0x28, 0x22, 0x7d);
  return `{"id":${number},"result":{"last"`;
}

function isAboutState({ kind, method }: RealtimeFrame): boolean {
  return method === (kind === 'update' ? undefined : 'state.query');
}

/** Returns true if it answers the newest trades: a cache that served errors would be another fault. */
function isNewest({ method, text }: RealtimeFrame): boolean {
  return method === 'trades.request' && ReplyRows.read('history', text) !== undefined;
}

/** The pushed trades of a frame, where a rule is about rows and its fault can befall these. */
function tradesOf(rule: FaultRule, { kind, method, text }: RealtimeFrame): ReplyRows | undefined {
  if (kind === 'update' && method === 'trades.subscribe') {
    return ReplyRows.forRule(rule, 'trades.update', text);
  }
  return method === 'trades.request' ? ReplyRows.forRule(rule, 'history', text) : undefined;
}

/** The older message with the id under which an answer is waited for now. */
function underIdOf(text: string, older: string): string {
  const { id } = JSON.parse(text) as { id?: unknown };
  return JSON.stringify({ ...(JSON.parse(older) as object), id });
}

/** Faults of one real-time connection. */
export class FaultyConnection implements ConnectionInterference {
  readonly #rulesAbout: (market: string | undefined) => readonly RuleState[];
  readonly #clock: Clock;
  /** An update that waits to be sent behind the next frame. */
  #held: string | undefined;

  /** @param rulesAbout states of the rules in force about real-time connections and a market */
  constructor(rulesAbout: (market: string | undefined) => readonly RuleState[], clock: Clock) {
    this.#rulesAbout = rulesAbout;
    this.#clock = clock;
  }

  opened(atMs: number): ConnectionFate {
    const nowMs = this.#clock.monotonicMs();
    for (const state of this.#rulesAbout(undefined)) {
      if (state.rule.at !== 'open') continue;
      if (state.offer(atMs, nowMs) !== undefined) return fateOf(state.rule);
    }
    return 'serve';
  }

  asked({ method, market, atMs }: RealtimeAsked): 'answer' | 'refuse' | 'ignore' {
    if (method !== 'state.subscribe' && method !== 'trades.subscribe') return 'answer';
    const nowMs = this.#clock.monotonicMs();
    for (const state of this.#rulesAbout(market)) {
      const { kind } = state.rule;
      if (kind !== 'refuseSubscribe' && kind !== 'ignoreSubscribe') continue;
      if (state.offer(atMs, nowMs) === undefined) continue;
      return kind === 'refuseSubscribe' ? 'refuse' : 'ignore';
    }
    return 'answer';
  }

  frame(frame: RealtimeFrame): FrameDelivery | undefined {
    const nowMs = this.#clock.monotonicMs();
    const held = this.#held;
    this.#held = undefined;
    let waitMs = 0;
    let delivery: Omit<FrameDelivery, 'waitMs'> = { frames: [frame.text], fate: 'serve' };
    for (const state of this.#rulesAbout(frame.market)) {
      const { rule } = state;
      const older = this.#olderFrame(state, frame, nowMs);
      const isAboutRows = shapeOf(rule.kind).isAboutRows;
      const rows = isAboutRows ? tradesOf(rule, frame) : undefined;
      if (isAboutRows ? rows === undefined : !this.#allows(rule, frame, held, older)) continue;
      const random = state.offer(frame.atMs, nowMs);
      if (random === undefined) continue;
      if (rule.kind === 'latency') {
        waitMs += drawLatency(rule, random);
        continue;
      }
      delivery =
        rows === undefined
          ? this.#spoil(rule, random, frame, older)
          : { frames: [rows.spoil(rule, random)], fate: 'serve' };
      break;
    }
    if (held !== undefined && delivery.fate === 'serve') {
      return { ...delivery, frames: [...delivery.frames, held], waitMs };
    }
    return { ...delivery, waitMs };
  }

  #allows(
    { kind, at }: FaultRule,
    frame: RealtimeFrame,
    held: string | undefined,
    older: string | undefined,
  ): boolean {
    switch (kind) {
      case 'refuseSubscribe':
      case 'ignoreSubscribe':
        return false;
      case 'dropSocket':
      case 'halfOpen':
        return at === 'frame';
      case 'reorderFrames':
        return frame.kind === 'update' && held === undefined;
      case 'stale':
      case 'staleState':
        return older !== undefined && older !== frame.text;
      default:
        return true;
    }
  }

  /** Returns the cached frame of a rule about stale states, or newest trades, for this frame. */
  #olderFrame(state: RuleState, frame: RealtimeFrame, nowMs: number): string | undefined {
    const { kind } = state.rule;
    const isKept =
      kind === 'stale' ? isNewest(frame) : kind === 'staleState' && isAboutState(frame);
    if (!isKept) return undefined;
    const key = `${frame.kind} ${frame.market ?? ''}`;
    const { text } = frame;
    // Newest trades are kept by the server, for all who ask.
    const cache = state.framesOf(kind === 'stale' ? state : this);
    const older = cache.take(key, text, text.length, nowMs);
    return older === undefined ? undefined : underIdOf(text, older);
  }

  #spoil(
    rule: FaultRule,
    random: Random,
    { text }: RealtimeFrame,
    older: string | undefined,
  ): Omit<FrameDelivery, 'waitMs'> {
    switch (rule.kind) {
      case 'dropSocket':
      case 'halfOpen':
        return { frames: [], fate: fateOf(rule) };
      case 'duplicateFrames':
        return {
          frames: Array.from({ length: 1 + (rule.copies ?? 1) }, () => text),
          fate: 'serve',
        };
      case 'reorderFrames':
        this.#held = text;
        return { frames: [], fate: 'serve' };
      case 'garbageFrame': {
        const behind = rule.place === 'instead' ? [] : [text];
        return { frames: [garbage(rule, random), ...behind], fate: 'serve' };
      }
      case 'oversizeFrame':
        return { frames: [new Uint8Array(rule.bytes ?? 0).fill(0x20), text], fate: 'serve' };
      default:
        return { frames: [older ?? text], fate: 'serve' };
    }
  }
}
