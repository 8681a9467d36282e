import type { ServerContext } from '../context.js';
import type {
  ConnectionFate,
  ConnectionInterference,
  RealtimeAsked,
  RealtimeFrame,
} from '../faults.js';

/** Delayed frames of one connection that may wait; beyond it the connection is cut. */
const MAX_DELAYED_FRAMES = 1024;

/** A frame without its time, which the gate adds. */
export type GateFrame = Omit<RealtimeFrame, 'atMs'>;

interface Socket {
  send(data: string | Uint8Array): void;
  cut(reason: string): void;
}

interface Delayed {
  readonly dueMs: number;
  readonly deliver: () => void;
}

/**
 * Stands between one real-time connection and its socket, and does with the frames what the
 * interference decides.
 *
 * States: *serving* → *quiet* (updates are swallowed) → *mute* (everything is), and *ended*. A
 * frame that is held up holds up those behind it: order is changed by decision only.
 */
export class FrameGate {
  readonly #context: ServerContext;
  readonly #interference: ConnectionInterference;
  readonly #socket: Socket;
  readonly #delayed: Delayed[] = [];
  #fate: ConnectionFate = 'serve';
  #cancelTimer: (() => void) | undefined;

  constructor(context: ServerContext, interference: ConnectionInterference, socket: Socket) {
    this.#context = context;
    this.#interference = interference;
    this.#socket = socket;
  }

  open(): void {
    this.#become(this.#interference.opened(this.#context.backend.nowMs()));
  }

  asked(asked: RealtimeAsked) {
    return this.#interference.asked(asked);
  }

  send(frame: GateFrame): void {
    if (!this.#isAudible(frame.kind)) return;
    const decided = this.#interference.frame({ ...frame, atMs: this.#context.backend.nowMs() });
    const { frames, waitMs, fate } = decided ?? { frames: [frame.text], waitMs: 0, fate: 'serve' };
    this.#after(waitMs, () => {
      if (!this.#isAudible(frame.kind)) return;
      for (const data of frames) this.#socket.send(data);
      this.#become(fate);
    });
  }

  /** Forgets what is held up. May be called more than once. */
  end(): void {
    this.#fate = 'mute';
    this.#delayed.length = 0;
    this.#cancelTimer?.();
  }

  #isAudible(kind: RealtimeFrame['kind']): boolean {
    return this.#fate === 'serve' || (this.#fate === 'quiet' && kind === 'response');
  }

  #become(fate: ConnectionFate): void {
    if (fate === 'drop') this.#socket.cut('fault');
    else if (fate !== 'serve' && this.#fate !== 'mute') this.#fate = fate;
  }

  #after(waitMs: number, deliver: () => void): void {
    if (waitMs === 0 && this.#delayed.length === 0) {
      deliver();
      return;
    }
    if (this.#delayed.length >= MAX_DELAYED_FRAMES) {
      this.#socket.cut('fault backlog');
      return;
    }
    const dueMs = this.#context.clock.monotonicMs() + waitMs;
    this.#delayed.push({ dueMs, deliver });
    if (this.#delayed.length === 1) this.#schedule();
  }

  #schedule(): void {
    const [next] = this.#delayed;
    if (next === undefined) return;
    const waitMs = Math.max(0, next.dueMs - this.#context.clock.monotonicMs());
    const onTimer = () => {
      this.#delayed.shift();
      next.deliver();
      this.#schedule();
    };
    this.#cancelTimer = this.#context.clock.after(waitMs, onTimer, { background: true });
  }
}
