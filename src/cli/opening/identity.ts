import type { StateEvent } from '../../client/index.js';
import type { ExchangePort, ExchangeReply, OpenStateFeed } from '../../collect/ports.js';
import type { EndpointName, ParamsOf, ResultOf } from '../../contract/endpoints.js';
import { TapekeepError } from '../../kernel/errors.js';

/** The server behind the address is suddenly another exchange: its rows must not be mixed in. */
export class ExchangeChangedError extends TapekeepError {
  constructor(expected: string | null, found: string | null) {
    super(
      'exchange_changed',
      'fatal',
      `the exchange at the configured address is another one (expected ${expected ?? 'one that names no identity'}, found ${found ?? 'one that names no identity'}; check that exchange.url and realtime.url belong together). Its data are not mixed into this archive; use another database, or bring the former exchange back.`,
    );
  }
}

interface IdentifiedExchange {
  readonly reserve: ExchangePort['reserve'];
  call<N extends EndpointName>(
    name: N,
    params: ParamsOf<N>,
    options?: Parameters<ExchangePort['call']>[2],
  ): Promise<ExchangeReply<ResultOf<N>> & { readonly identity: string | null }>;
}

/**
 * Lets only answers of the exchange through that the archive belongs to.
 *
 * @param onChange called once per foreign answer, so that the daemon can end
 */
export function guardIdentity(
  exchange: IdentifiedExchange,
  expected: string | null,
  onChange: (error: ExchangeChangedError) => void,
): ExchangePort {
  return {
    reserve: (priority, signal) => exchange.reserve(priority, signal),
    async call(name, params, options) {
      const reply = await exchange.call(name, params, options);
      if (reply.identity !== expected) {
        const error = new ExchangeChangedError(expected, reply.identity);
        onChange(error);
        throw error;
      }
      return reply;
    },
  };
}

/**
 * The same for the real-time interface, which has an address of its own: a connection to another
 * exchange is closed before anything of it is read.
 */
export function guardFeedIdentity(
  open: OpenStateFeed,
  expected: string | null,
  onChange: (error: ExchangeChangedError) => void,
): OpenStateFeed {
  return (market, periodS) => {
    const feed = open(market, periodS);
    return {
      stop: () => feed.stop(),
      async *[Symbol.asyncIterator](): AsyncGenerator<StateEvent> {
        for await (const event of feed) {
          const found = event.kind === 'opened' ? (event.identity ?? null) : expected;
          if (found !== expected) {
            onChange(new ExchangeChangedError(expected, found));
            return;
          }
          yield event;
        }
      },
    };
  };
}
