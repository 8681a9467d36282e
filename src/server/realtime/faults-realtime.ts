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
export function frameGate(
  { backend, clock }: ServerContext,
  interference: ConnectionInterference,
  socket: Socket,
) {
  const delayed: Delayed[] = [];
  let fate: ConnectionFate = 'serve';
  let cancelTimer: (() => void) | undefined;
  const isAudible = (kind: RealtimeFrame['kind']) =>
    fate === 'serve' || (fate === 'quiet' && kind === 'response');
  const become = (next: ConnectionFate) => {
    if (next === 'drop') socket.cut('fault');
    else if (next !== 'serve' && fate !== 'mute') fate = next;
  };
  const schedule = () => {
    const [next] = delayed;
    if (next === undefined) return;
    const onTimer = () => {
      delayed.shift();
      next.deliver();
      schedule();
    };
    const waitMs = Math.max(0, next.dueMs - clock.monotonicMs());
    cancelTimer = clock.after(waitMs, onTimer, { background: true });
  };
  const after = (waitMs: number, deliver: () => void) => {
    if (waitMs === 0 && delayed.length === 0) return deliver();
    if (delayed.length >= MAX_DELAYED_FRAMES) return socket.cut('fault backlog');
    delayed.push({ dueMs: clock.monotonicMs() + waitMs, deliver });
    if (delayed.length === 1) schedule();
  };
  return {
    open: () => become(interference.opened(backend.nowMs())),
    asked: (asked: RealtimeAsked) => interference.asked(asked),
    send(frame: GateFrame) {
      if (!isAudible(frame.kind)) return;
      const decided = interference.frame({ ...frame, atMs: backend.nowMs() });
      const asItIs = { frames: [frame.text], waitMs: 0, fate: 'serve' } as const;
      const { frames, waitMs, fate: next } = decided ?? asItIs;
      after(waitMs, () => {
        if (!isAudible(frame.kind)) return;
        for (const data of frames) socket.send(data);
        become(next);
      });
    },
    /** Forgets what is held up. May be called more than once. */
    end() {
      fate = 'mute';
      delayed.length = 0;
      cancelTimer?.();
    },
  };
}
