import { TapekeepError } from '../../kernel/errors.js';
import type { LiveOptions } from './options.js';

/** The options of a live exchange, or what it was told to do, are not possible. */
export class LiveError extends TapekeepError {
  /** The option that is at fault, where there is one; of keys also which, such as `keys.0`. */
  readonly option: keyof LiveOptions | `keys.${number}` | undefined;

  constructor(message: string, option?: LiveError['option'], cause?: unknown) {
    super('live_invalid', 'fatal', message, { cause });
    this.option = option;
  }
}
