import { TapekeepError } from '../kernel/errors.js';

/** A tape file or the options of a tape are not usable; the message says where and what is allowed. */
export class TapeError extends TapekeepError {
  constructor(message: string, options?: { cause?: unknown }) {
    super('tape_invalid', 'fatal', message, options);
  }
}
