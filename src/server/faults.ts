import type { EndpointName } from '../contract/endpoints.js';
import type { RealtimeMethod } from '../contract/realtime.js';

/**
 * How a served exchange can be made to misbehave on purpose. The server asks at fixed points and
 * does as instructed; what goes wrong, and when, is decided by the implementation of
 * {@link Interference}. Without one the server serves the contract and nothing else.
 */

/** A request to an endpoint of the contract whose reply is ready to be sent. */
export interface HttpAsked {
  readonly endpoint: EndpointName;
  /** The market that the request names, known or not. */
  readonly market: string | undefined;
  /** Key of a request: equal texts mean equal requests: method, target and body. */
  readonly request: string;
  /** The exchange's time, UNIX milliseconds. */
  readonly atMs: number;
}

export interface HttpReply {
  readonly status: number;
  /** Names in lower case. The length of the body is not among them. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

/** Change of a reply on its way out. */
export type HttpEnding =
  /** The headers promise the whole body; the connection is closed after this many bytes of it. */
  | { readonly kind: 'cut'; readonly afterBytes: number }
  /** The body, or all before it, comes `bytes` at a time, with pauses between. */
  | {
      readonly kind: 'drip';
      readonly part: 'head' | 'body';
      readonly bytes: number;
      readonly pauseMs: number;
    }
  /** Nothing is sent. After `ms`, or never when it is left out, the connection is closed. */
  | { readonly kind: 'hang'; readonly ms?: number }
  /** The connection is reset (TCP RST) before a byte is sent. */
  | { readonly kind: 'reset' };

export interface HttpDelivery {
  /** The reply itself, or what takes its place. */
  readonly reply: HttpReply;
  /** Time before anything of it happens. */
  readonly waitMs: number;
  readonly ending?: HttpEnding;
}

/** A real-time method, or one of those for trades that are pushed, which have a word in each dialect. */
export type AskedMethod = RealtimeMethod | 'trades.subscribe' | 'trades.request';

/** A real-time request that is about to be answered. */
export interface RealtimeAsked {
  readonly method: AskedMethod;
  readonly market: string | undefined;
  readonly atMs: number;
}

/** A frame that is about to be sent to one real-time client. */
export interface RealtimeFrame {
  readonly kind: 'response' | 'update';
  /**
   * The method that is answered, or whose updates these are; undefined for updates of a state, and when no
   * method was understood.
   */
  readonly method: AskedMethod | undefined;
  /** The market that was asked for last, or that the update is about. */
  readonly market: string | undefined;
  readonly text: string;
  readonly atMs: number;
}

/**
 * Fate of a connection. `quiet` sends no updates any more but answers requests; `mute`
 * sends nothing at all. Both stay connected and answer protocol pings.
 */
export type ConnectionFate = 'serve' | 'quiet' | 'mute' | 'drop';

export interface FrameDelivery {
  /** Frames sent instead of the frame, in order. Bytes go out as a text frame, valid or not. */
  readonly frames: readonly (string | Uint8Array)[];
  readonly waitMs: number;
  /** Fate of the connection once the frames are sent. */
  readonly fate: ConnectionFate;
}

/** Interference with one real-time connection. */
export interface ConnectionInterference {
  opened(atMs: number): ConnectionFate;
  /** Decides if a request is answered as usual, refused as unavailable, or ignored. */
  asked(asked: RealtimeAsked): 'answer' | 'refuse' | 'ignore';
  /** Undefined sends the frame as it is. */
  frame(frame: RealtimeFrame): FrameDelivery | undefined;
}

/** Interference seen from the outside: a script that can be read, replaced and taken away. */
export interface InterferenceControl {
  /** The script in force with what it did so far, as a JSON document. */
  describe(): object;
  /**
   * @param markets all there will ever be; left out: others may come, so a rule may name any
   * @throws TapekeepError that says what is wrong with the script; the old one stays in force.
   */
  replace(script: unknown, markets?: readonly string[]): void;
  clear(): void;
}

export interface Interference {
  /** Undefined sends the reply as it is. */
  reply(asked: HttpAsked, reply: HttpReply): HttpDelivery | undefined;
  /** Called once for each real-time connection. */
  connection(): ConnectionInterference;
  readonly control?: InterferenceControl;
}
