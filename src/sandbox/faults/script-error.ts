import { TapekeepError } from '../../kernel/errors.js';

/** A fault script is not usable; the message names the rule, the key, the value and what is allowed. */
export class FaultScriptError extends TapekeepError {
  constructor(message: string) {
    super('fault_script_invalid', 'fatal', message);
  }
}
