import { TapekeepError } from '../kernel/errors.js';

/** A replay cannot do what was asked of it; the message says why, and what to do. */
export class ReplayError extends TapekeepError {
  /** @param option the setting that is wrong, if it is one */
  readonly option: 'from' | 'to' | 'markets' | undefined;

  constructor(message: string, option?: 'from' | 'to' | 'markets') {
    super('replay_invalid', 'fatal', message);
    this.option = option;
  }
}
