import { TapekeepError } from '../../kernel/errors.js';

/** The engine was set up or called in a way that no request of a client can cause. */
export class EngineError extends TapekeepError {
  constructor(message: string) {
    super('engine_misused', 'fatal', message);
  }
}
