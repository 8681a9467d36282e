import { type ClientRequestArgs, type RequestOptions, request as requestPlain } from 'node:http';
import { request as requestSecure } from 'node:https';
import type { Socket } from 'node:net';
import { buildConnector } from 'undici';
import { AbortedError, codeOf, messageOf } from '../kernel/errors.js';
import { tlsRefusal } from '../kernel/tls.js';
import { InvalidAddressError, safeExcerpt } from './errors.js';
import type { ProxyAddress } from './exchange-client.js';

/** The proxy did not make the connection. The message names it, and says what to do. */
export class ProxyFailure extends Error {
  /** Only a person can change that: it asks for a login, or forbids the address. */
  readonly isRefusal: boolean;

  constructor(text: string, isRefusal: boolean, cause?: unknown) {
    super(text, { cause });
    this.isRefusal = isRefusal;
  }
}

/** Code and text of a network failure; several addresses may have failed together. */
export function describeFailure(error: unknown): string {
  const shown = error instanceof AggregateError ? (error.errors[0] ?? error) : error;
  const [code, text] = [codeOf(shown), messageOf(shown)];
  return safeExcerpt(code === 'Error' || text.includes(code) ? text : `${code} ${text}`);
}

export interface TunnelLimits {
  /** For the proxy's answer, and again for TLS behind it. */
  readonly timeoutMs: number;
  /** Gives up what is under way. */
  readonly signal: AbortSignal;
}

/**
 * A proxy between this program and an exchange. Everything goes through a tunnel (CONNECT), but for requests to
 * an `http:` address, which an `http:` proxy reads and forwards: many allow tunnels to port 443 only.
 */
export class HttpProxy {
  /** Scheme, host and port, without credentials. */
  readonly origin: string;
  /** Address and setting for messages: `http://proxy:3128 (HTTPS_PROXY)`. */
  readonly name: string;
  /** Clause for messages about what is behind it. */
  readonly via: string;
  /** Headers of requests that the proxy itself reads. */
  readonly headers: Readonly<Record<string, string>>;
  readonly #url: URL;
  readonly #setting: string;

  /**
   * @throws InvalidAddressError, which shows no credentials
   */
  constructor({ url, setting }: ProxyAddress) {
    const form = 'name a proxy such as http://host:3128';
    if (!URL.canParse(url)) {
      const advice = `it is not an address; ${form} (# / ? @ of a password are written %23 %2F %3F %40)`;
      throw new InvalidAddressError(setting, '***', advice);
    }
    this.#url = new URL(url);
    this.#setting = setting;
    const { protocol, host, username, password } = this.#url;
    this.origin = `${protocol}//${host}`;
    this.name = `${this.origin} (${setting})`;
    this.via = ` (through the proxy ${this.name})`;
    if (protocol !== 'http:' && protocol !== 'https:') {
      const advice = `it must begin with http:// or https://: ${form}`;
      throw new InvalidAddressError(setting, this.origin, advice);
    }
    this.headers = {};
    if (username === '' && password === '') return;
    try {
      const login = `${decodeURIComponent(username)}:${decodeURIComponent(password)}`;
      const token = Buffer.from(login).toString('base64');
      this.headers = { 'proxy-authorization': `Basic ${token}` };
    } catch {
      const advice = 'a % in user name or password is written %25';
      throw new InvalidAddressError(setting, this.origin, advice);
    }
  }

  /** Returns true if requests to an address of this scheme are forwarded, and not tunnelled. */
  forwards(protocol: string): boolean {
    return protocol === 'http:' && this.#url.protocol === 'http:';
  }

  /** Returns a function that connects to a target through a tunnel, with TLS to an `https:` target. */
  connector(limits: TunnelLimits): buildConnector.connector {
    const secure = buildConnector({ timeout: limits.timeoutMs });
    return (target, done) => {
      const isSecure = target.protocol === 'https:';
      const opened = (socket: Socket) => {
        if (isSecure) secure({ ...target, httpSocket: socket }, done);
        else done(null, socket);
      };
      const host = target.hostname.includes(':') ? `[${target.hostname}]` : target.hostname;
      this.#tunnel(`${host}:${target.port || (isSecure ? '443' : '80')}`, limits).then(
        opened,
        (error: Error) => done(error, null),
      );
    };
  }

  /** Options for a request of Node's own, or of a library above it, to a `ws:` or `wss:` address. */
  connectionTo(
    { protocol, host, hostname, port }: URL,
    limits: TunnelLimits,
  ): ClientRequestArgs['createConnection'] {
    const connect = this.connector(limits);
    const target = {
      ...{ host, port, hostname: hostname.replace(/^\[|\]$/g, '') },
      protocol: protocol === 'wss:' ? 'https:' : 'http:',
    };
    return (_options, done) => {
      connect(target, done as buildConnector.Callback);
      return undefined;
    };
  }

  #tunnel(authority: string, { timeoutMs, signal }: TunnelLimits): Promise<Socket> {
    return new Promise((resolve, reject) => {
      const options: RequestOptions = {
        method: 'CONNECT',
        path: authority,
        headers: { host: authority, ...this.headers },
        timeout: timeoutMs,
        agent: false,
      };
      // A URL with credentials would add a header that is meant for the target.
      const url = new URL(this.origin);
      const request =
        url.protocol === 'https:' ? requestSecure(url, options) : requestPlain(url, options);
      const onAbort = () => request.destroy(new AbortedError());
      signal.addEventListener('abort', onAbort, { once: true });
      if (signal.aborted) onAbort();
      request.once('connect', ({ statusCode = 0 }, socket: Socket, head) => {
        signal.removeEventListener('abort', onAbort);
        // Until its next owner listens.
        socket.on('error', () => undefined);
        if (statusCode < 200 || statusCode > 299) {
          socket.destroy();
          reject(this.refusal(statusCode, authority));
          return;
        }
        socket.setTimeout(0);
        if (head.length > 0) socket.unshift(head);
        resolve(socket);
      });
      request.once('timeout', () => {
        request.destroy(new Error(`no answer within ${timeoutMs} ms`));
      });
      request.on('error', (error) => {
        signal.removeEventListener('abort', onAbort);
        reject(this.unreachable(error));
      });
      request.end();
    });
  }

  /** No connection to the proxy came about, or it broke before the proxy answered. */
  unreachable(error: unknown): ProxyFailure {
    const why = tlsRefusal(error) ?? describeFailure(error);
    const advice = `start it, correct ${this.#setting}, or go without it (NO_PROXY)`;
    return new ProxyFailure(
      `the proxy ${this.name} does not answer: ${why}; ${advice}`,
      false,
      error,
    );
  }

  /** The proxy answered with this status in place of the target. */
  refusal(status: number, target: string): ProxyFailure {
    // Tinyproxy answers 401 where the login is wrong.
    if (status === 407 || status === 401) {
      const hasLogin = 'proxy-authorization' in this.headers;
      const what = hasLogin ? 'refuses its user and password' : 'asks for user and password';
      const advice = `write them into ${this.#setting} as http://user:password@host:port`;
      return new ProxyFailure(`the proxy ${this.name} ${what} (${status}): ${advice}`, true);
    }
    const isRefusal = status >= 400 && status <= 499;
    const [what, advice] = isRefusal
      ? ['does not allow', 'let it allow this host and port']
      : ['could not make', 'check that it reaches this host'];
    const text = `the proxy ${this.name} ${what} a connection to ${target} (${status}): ${advice}, or go without it (NO_PROXY)`;
    return new ProxyFailure(text, isRefusal);
  }
}

/** @throws InvalidAddressError where it is none of a proxy */
export function proxyAt(address: ProxyAddress | undefined): HttpProxy | undefined {
  return address && new HttpProxy(address);
}
