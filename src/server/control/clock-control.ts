import type { Backend } from '../backend.js';

/** Seconds of the exchange per second of this machine, as fast as followers read, or by hand. */
export type PlaySpeed = number | 'max' | 'step';

/** How the time of a session stands. */
export interface ClockReading {
  /** Null for the one that all share who name none. */
  readonly session: string | null;
  /** UNIX milliseconds, as all times here. */
  readonly nowMs: number;
  readonly fromMs: number;
  readonly toMs: number;
  /** `waiting` for its first client, `ended` at the end of the span. */
  readonly state: 'waiting' | 'running' | 'paused' | 'ended';
  readonly speed: PlaySpeed;
  /** Real-time connections. */
  readonly connections: number;
}

/**
 * The time of a served recording, steered from outside its contract. Each method throws a
 * TapekeepError, naming what was wrong and what is allowed, when it cannot do what is asked for;
 * then nothing has changed.
 */
export interface ClockControl {
  read(session: string | undefined): ClockReading;
  /** All sessions, the shared one first. */
  sessions(): readonly ClockReading[];
  pause(session: string | undefined): ClockReading;
  resume(session: string | undefined): ClockReading;
  seek(session: string | undefined, atMs: number): ClockReading;
  /** Goes ahead by `ms`, or, left out, to the next thing that was recorded. */
  step(session: string | undefined, ms: number | undefined): Promise<ClockReading>;
  setSpeed(session: string | undefined, speed: PlaySpeed): ClockReading;
  /** Forgets a session: its connections are closed, and its name starts anew. */
  end(session: string): ClockReading;
}

/** A backend whose time can be steered while it is served. */
export interface PlayedBackend extends Backend {
  readonly clockControl: ClockControl;
}
