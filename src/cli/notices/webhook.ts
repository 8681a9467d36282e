import { hostname } from 'node:os';
import { HttpTransport } from '../../client/http-transport.js';
import type { ProxyAddress } from '../../client/index.js';
import type { Config } from '../../config/schema.js';
import type { Clock } from '../../kernel/clock.js';
import { SECOND_MS } from '../../kernel/durations.js';
import { TapekeepError } from '../../kernel/errors.js';
import { systemRandom } from '../../kernel/random.js';
import { isoMs } from '../../kernel/timestamp.js';
import { VERSION } from '../command.js';
import type { Session } from '../opening/session.js';
import { type Change, type Circumstances, Notices } from './notices.js';

/** Sends notices to an address, in the form that its receiver takes. */

const TIMEOUT_MS = 10 * SECOND_MS;
/** An answer is only looked at by its status. */
const ANSWER_BYTES = 64 * 1024;

type Format = Config['alerts']['format'];

/** Names in a notice, besides its changes. */
export interface Sender {
  /** Name of the exchange that is collected. */
  readonly exchange: string;
  readonly host: string;
  readonly version: string;
}

const MARKS = { fired: 'PROBLEM', ended: 'ended', lost: 'LOST' } as const;

/** The notice for a person. */
export function noticeText({ exchange, host }: Sender, changes: readonly Change[]): string {
  const lines = changes.map(({ change, check, detail, since, runbook }) => {
    const more = change === 'ended' ? '' : `\n${runbook}`;
    return `${MARKS[change]} ${check}: ${detail} (since ${since})${more}`;
  });
  return `tapekeep, ${exchange} on ${host}\n${lines.join('\n')}`;
}

/** Characters that Slack would read as markup (api.slack.com/reference/surfaces/formatting). */
const escaped = (text: string) =>
  text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');

/** Most characters of a message of Telegram. */
const TELEGRAM_LENGTH = 4096;

/** The body that a receiver is sent. */
function bodyOf(format: Format, sender: Sender, changes: readonly Change[], atMs: number): object {
  const text = noticeText(sender, changes);
  if (format === 'slack') return { text: escaped(text) };
  // The chat is in the address: its parameters count as those of the body do.
  if (format === 'telegram') return { text: text.slice(0, TELEGRAM_LENGTH) };
  return { ...sender, at: isoMs(atMs), text, changes };
}

export interface WebhookOptions {
  readonly url: string;
  readonly format: Format;
  readonly clock: Clock;
  /** Left out where the receiver is reached directly. */
  readonly proxy?: ProxyAddress | undefined;
}

/** One receiver of notices. Its address may hold a secret, and is in no message. */
export class Webhook implements AsyncDisposable {
  readonly #options: WebhookOptions;
  readonly #transport: HttpTransport;
  readonly #url: URL;

  constructor(options: WebhookOptions) {
    this.#options = options;
    this.#url = new URL(options.url);
    const { clock, proxy } = options;
    this.#transport = new HttpTransport({
      ...{ baseUrl: this.#url.origin, clock, proxy, connections: 1 },
      ...{ timeoutMs: TIMEOUT_MS, maxBodyBytes: ANSWER_BYTES },
    });
  }

  /** @throws TapekeepError, ExchangeError, or the signal's reason */
  async send(sender: Sender, changes: readonly Change[], signal: AbortSignal): Promise<void> {
    const { format, clock } = this.#options;
    const { pathname, search, username, password } = this.#url;
    const login = `${decodeURIComponent(username)}:${decodeURIComponent(password)}`;
    const body = Buffer.from(JSON.stringify(bodyOf(format, sender, changes, clock.wallMs())));
    const { status } = await this.#transport.send(
      {
        ...{ endpoint: 'alerts.webhook', method: 'POST', path: `${pathname}${search}`, body },
        headers: {
          'content-type': 'application/json',
          ...(login !== ':' && {
            authorization: `Basic ${Buffer.from(login).toString('base64')}`,
          }),
        },
      },
      signal,
      { onHead: () => undefined },
    );
    if (status >= 200 && status < 300) return;
    const advice = 'correct alerts.webhook and alerts.format (json, slack, telegram)';
    throw new TapekeepError('webhook_refused', `alerts.webhook answered HTTP ${status}; ${advice}`);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#transport.close();
  }
}

/** Parts of a daemon that its notices see. */
export interface Watched {
  /** Never rejects. */
  circumstances(): Promise<Circumstances>;
  readonly exchange: () => string;
}

/** Notices of one daemon, from its start to its end. */
export interface RunningNotices {
  /** Ends them; a failure that ends the process is told before. Never rejects. */
  stop(failure: Error | undefined): Promise<void>;
}

/** Starts telling of changes, if the settings name a receiver. */
export function startNotices(
  { config, clock, telemetry, proxyFor }: Session,
  watched: Watched,
): RunningNotices | undefined {
  const { webhook: url, format } = config.alerts;
  if (url === null) return undefined;
  const ending = new AbortController();
  const host = hostname();
  const receiver = new Webhook({ url, format, clock, proxy: proxyFor(url) });
  const notices = new Notices({
    ...{ clock, random: systemRandom, telemetry: telemetry.daemon },
    look: () => watched.circumstances(),
    send: (changes, signal) =>
      receiver.send({ exchange: watched.exchange(), host, version: VERSION }, changes, signal),
  });
  const running = notices.run(ending.signal);
  return {
    async stop(failure) {
      ending.abort();
      await running;
      // The receiver is asked once, within the time limit of a request.
      if (failure !== undefined) await notices.sendLast(failure);
      await receiver[Symbol.asyncDispose]();
    },
  };
}
