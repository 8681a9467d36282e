import { familyUpdateMessage, type StateParams, updateMessage } from '../contract/realtime.js';
import type { StateRecord } from '../contract/resources.js';
import type { StateFollower } from './backend.js';
import type { ServerContext } from './http.js';

/** The connection that a subscription sends to. */
interface Reader {
  send(text: string): void;
  /** Resolves when there is room for more; undefined while there is. */
  room(): Promise<void> | undefined;
  close(code: number, reason: string): void;
}

/** One record may go to thousands of readers; its text is the same for all of them. */
const texts = new WeakMap<StateRecord, string>();

function contractText(record: StateRecord): string {
  const known = texts.get(record);
  if (known !== undefined) return known;
  const text = JSON.stringify(updateMessage(record));
  texts.set(record, text);
  return text;
}

/**
 * The updates of one `state.subscribe` at a backend that knows when each came: every one of them is
 * sent, neither paced nor compared.
 *
 * States: *new* → *following* → *ended*.
 */
export class FollowedSubscription {
  readonly #context: ServerContext;
  readonly #params: StateParams;
  readonly #reader: Reader;
  #endFollowing: (() => void) | undefined;
  #isEnded = false;

  constructor(context: ServerContext, params: StateParams, reader: Reader) {
    this.#context = context;
    this.#params = params;
    this.#reader = reader;
  }

  start(): void {
    if (this.#isEnded || this.#endFollowing !== undefined) return;
    const { backend, variants } = this.#context;
    const [market, periodS] = this.#params;
    const textOf =
      variants.updateShape === 'contract'
        ? contractText
        : (record: StateRecord) => JSON.stringify(familyUpdateMessage(market, record));
    const follower: StateFollower = {
      send: (record) => {
        if (this.#isEnded) return undefined;
        this.#reader.send(textOf(record));
        return this.#reader.room();
      },
      close: (code, reason) => this.#reader.close(code, reason),
    };
    this.#endFollowing = backend.follow?.(market, periodS, follower);
  }

  /** After this nothing more is sent. */
  end(): void {
    this.#isEnded = true;
    this.#endFollowing?.();
    this.#endFollowing = undefined;
  }
}
