import { familyUpdateMessage, type StateParams } from '../../contract/realtime.js';
import type { StateRecord } from '../../contract/resources.js';
import { gapNoticeMessage } from '../../contract/told-gaps.js';
import type { StateFollower, WrittenUpdate } from '../backend.js';
import type { ServerContext } from '../http/http.js';

/** The connection that a subscription sends to. */
interface Reader {
  /** Whether it asked for gap notices. */
  readonly notifiesGaps: boolean;
  send(text: string): void;
  /** Resolves when there is room for more; undefined while there is. */
  room(): Promise<void> | undefined;
  close(code: number, reason: string): void;
}

const [BEFORE = '', AFTER = ''] = JSON.stringify({ result: '@', error: null, id: null }).split(
  '"@"',
);

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
    const textOf = ({ recordText }: WrittenUpdate) =>
      variants.updateShape === 'contract'
        ? BEFORE + recordText + AFTER
        : JSON.stringify(familyUpdateMessage(market, JSON.parse(recordText) as StateRecord));
    const notifyGap = (isGap: boolean, atMs: number) => {
      if (!this.#isEnded) this.#reader.send(JSON.stringify(gapNoticeMessage(isGap, atMs)));
    };
    const follower: StateFollower = {
      ...(this.#reader.notifiesGaps && { notifyGap }),
      send: (update) => {
        if (this.#isEnded) return undefined;
        this.#reader.send(textOf(update));
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
