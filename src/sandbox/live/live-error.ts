import { TapekeepError } from '../../kernel/errors.js';

/** The options of a live exchange, or what it was told to do, are not possible. */
export class LiveError extends TapekeepError {
  constructor(message: string) {
    super('live_invalid', 'fatal', message);
  }
}
