import { familyUpdateMessage, type StateParams, updateMessage } from '../../contract/realtime.js';
import type { StateRecord } from '../../contract/resources.js';
import type { WrittenUpdate } from '../backend.js';
import type { ServerContext } from '../context.js';
import { failureOf } from '../http/replies.js';

/** Updates that are sent until it is ended. */
export interface Subscription {
  /** After this nothing more is sent. */
  end(): void;
}

/**
 * The updates of one `state.subscribe`: the first at once, later ones only when the record changed,
 * and at most one per `updateIntervalMs`.
 *
 * States: *resting* (nothing was sent within the interval: a change of the market is sent at once),
 * *pacing* (something was: the timer starts the next read), *reading* (the backend is asked),
 * *ended*. A read also happens once per interval without any trade, because trades that fall out
 * of the rolling period change the record too.
 */
export function paceState(
  { backend, clock, telemetry, variants, words }: ServerContext,
  [market, periodS]: StateParams,
  send: (text: string) => void,
): Subscription {
  let cancelTimer: (() => void) | undefined;
  let lastText = '';
  let sentAtMs = Number.NEGATIVE_INFINITY;
  let isReading = false;
  let isEnded = false;
  const isList = variants.subscribeForm === 'markets';
  const read = async (): Promise<void> => {
    if (isEnded || isReading) return;
    isReading = true;
    cancelTimer?.();
    try {
      const record = await backend.state(market, periodS);
      const message =
        variants.updateShape === 'family' || isList
          ? familyUpdateMessage(market, record, { ...words, isList })
          : updateMessage(record);
      const text = JSON.stringify(message);
      if (!isEnded && text !== lastText) {
        lastText = text;
        sentAtMs = clock.monotonicMs();
        send(text);
      }
    } catch (error) {
      telemetry.handlerFailed(failureOf('state.update', error));
      // A notification has no place for an error: the subscriber sees silence, and the next read
      // may succeed.
    } finally {
      isReading = false;
      if (!isEnded) {
        const next = () => void read();
        cancelTimer = clock.after(variants.updateIntervalMs, next, { background: true });
      }
    }
  };
  const endWatch = backend.watch(market, () => {
    // While pacing, the pending timer starts the next read.
    if (clock.monotonicMs() - sentAtMs >= variants.updateIntervalMs) void read();
  });
  void read();
  return {
    end() {
      isEnded = true;
      endWatch();
      cancelTimer?.();
    },
  };
}

/** The connection that a subscription sends to. */
interface Reader {
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
 */
export function followState(
  { backend, variants }: ServerContext,
  [market, periodS]: StateParams,
  reader: Reader,
): Subscription {
  let isEnded = false;
  const textOf = ({ recordText }: WrittenUpdate) =>
    variants.updateShape === 'contract'
      ? BEFORE + recordText + AFTER
      : JSON.stringify(familyUpdateMessage(market, JSON.parse(recordText) as StateRecord));
  const endFollowing = backend.follow?.(market, periodS, {
    send(update) {
      if (isEnded) return undefined;
      reader.send(textOf(update));
      return reader.room();
    },
    close: (code, reason) => reader.close(code, reason),
  });
  const end = () => {
    isEnded = true;
    endFollowing?.();
  };
  return { end };
}
