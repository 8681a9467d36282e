import type { Backoff } from '../../kernel/retry.js';

/** What one group has tried so far. */
export class Tries {
  readonly backoff: Backoff;
  mayBeDirect = true;
  partition = 0;
  ways = 0;

  constructor(backoff: Backoff) {
    this.backoff = backoff;
  }
}
