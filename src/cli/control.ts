import { InvalidArgumentError, Option } from 'commander';
import { CTL_URL_VARIABLE } from '../config/keys.js';
import { hasSessionAtMost, inSession, sessionIn } from '../contract/extensions.js';
import { messageOf, TapekeepError } from '../kernel/errors.js';
import { parseJson } from '../kernel/json.js';
import type { Input } from './command.js';
import { UsageError } from './failure.js';

/** Steering a server of ours while it runs: its address, and requests to it. */

const URL_FORM = 'Write the address of the ready line, such as http://127.0.0.1:8080.';

/** The origin, with the session of a replay where the address names one. */
function addressArgument(text: string): string {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  const isBare = url !== undefined && /^https?:$/.test(url.protocol) && url.pathname === '/';
  if (url === undefined || !isBare || !hasSessionAtMost(url)) {
    throw new InvalidArgumentError(URL_FORM);
  }
  return inSession(url.origin, sessionIn(text));
}

/**
 * The address may stand in a variable of its own, which no other command reads: who steers a sandbox
 * does not want to collect from it by accident. Where that is not set, the exchange of the settings is.
 */
function addressVariable(): string {
  const isSet = (process.env[CTL_URL_VARIABLE] ?? '') !== '';
  return isSet ? CTL_URL_VARIABLE : 'TAPEKEEP_EXCHANGE_URL';
}

/** The address of what is steered. Each program that is built looks which variable is set. */
export function addressOption(server: 'sandbox' | 'replay'): Input<string | undefined> {
  const description = `the ${server}'s address, as its ready line has it; or the variable ${CTL_URL_VARIABLE}, else TAPEKEEP_EXCHANGE_URL`;
  return {
    get options() {
      const option = new Option('--url <address>', description);
      return [option.env(addressVariable()).argParser(addressArgument)];
    },
  };
}

/** Time for one request, and the most that is read of its answer. */
const TIMEOUT_MS = 30_000;
const ANSWER_MAX_BYTES = 16 * 1024 * 1024;

/** A server that is steered. */
export interface Steered {
  readonly name: 'sandbox' | 'replay';
  /** What an address that knows no such path is, in words. */
  readonly unknown: string;
}

interface Asked {
  readonly method?: 'GET' | 'POST' | 'PUT' | 'DELETE';
  readonly body?: object | undefined;
  readonly headers?: Readonly<Record<string, string>>;
}

export interface Answer {
  readonly text: string;
  /** Path of the next page. */
  readonly next: string | undefined;
}

/**
 * Sends one request.
 *
 * @throws TapekeepError `usage` for what was asked wrongly, else `control_failed`
 */
export async function request(
  { name, unknown }: Steered,
  url: string | undefined,
  path: string,
  init: Asked = {},
): Promise<Answer> {
  if (url === undefined) {
    const advice = `give the address of the ${name}'s ready line with it, such as http://127.0.0.1:8080, or set ${CTL_URL_VARIABLE}`;
    throw new UsageError('--url <address>', undefined, advice);
  }
  const { body, ...asked } = init;
  let response: Response;
  let text: string;
  try {
    response = await fetch(new URL(`/${name}/${path}`, url), {
      ...asked,
      ...(body && { body: JSON.stringify(body) }),
      signal: AbortSignal.timeout(TIMEOUT_MS),
      redirect: 'error',
    });
    text = await readBounded(response);
  } catch (error) {
    const cause = error instanceof Error && error.cause !== undefined ? error.cause : error;
    const text = `${url} does not answer (${messageOf(cause)}); give the address of the ${name}'s ready line with --url`;
    throw new TapekeepError('control_failed', text);
  }
  if (!response.ok) {
    const { status } = response;
    const why =
      status === 404
        ? `${url} ${unknown}`
        : `the ${name} refuses (HTTP ${status}): ${refusalIn(text)}`;
    throw new TapekeepError(status === 400 ? 'usage' : 'control_failed', why);
  }
  const next = /^<\/\w+\/([^>]*)>; rel="next"$/.exec(response.headers.get('link') ?? '')?.[1];
  return { text, next };
}

async function readBounded(response: Response): Promise<string> {
  const decoder = new TextDecoder();
  let text = '';
  let bytes = 0;
  for await (const part of response.body ?? []) {
    const piece = part as Uint8Array;
    bytes += piece.length;
    if (bytes > ANSWER_MAX_BYTES) throw new Error(`more than ${ANSWER_MAX_BYTES} bytes came`);
    text += decoder.decode(piece, { stream: true });
  }
  return text + decoder.decode();
}

function refusalIn(text: string): string {
  try {
    return String((parseJson(text) as { readonly message?: unknown }).message);
  } catch {
    // What is no JSON is shown as it came.
    return text.slice(0, 500);
  }
}

/** Sends one request, and prints the result as one JSON document. @param shown what of it is printed */
export async function steer(
  server: Steered,
  url: string | undefined,
  path: string,
  init: Asked = {},
  shown = (result: unknown) => result,
): Promise<undefined> {
  const { text } = await request(server, url, path, init);
  const { result } = parseJson(text) as { readonly result: unknown };
  process.stdout.write(`${JSON.stringify(shown(result), null, 2)}\n`);
}
