import { TapekeepError } from '../../kernel/errors.js';

/** A tool can not be given what was asked for. Nothing was written. */
export class InterchangeError extends TapekeepError {
  constructor(message: string) {
    super('interchange_refused', 'fatal', message);
  }
}
