import { messageOf, TapekeepError } from '../../kernel/errors.js';
import { parseJson } from '../../kernel/json.js';
import { EXIT_CODES, type ExitCode } from '../exit-codes.js';
import { UsageError } from '../failure.js';

/** Time for one request, and the most that is read of its answer. */
const TIMEOUT_MS = 30_000;
const ANSWER_MAX_BYTES = 16 * 1024 * 1024;
const PREFIX = '/sandbox/';

/** The sandbox did not do what it was asked for; the text says why. */
class ControlError extends TapekeepError {
  /** @param code `usage` for what was asked wrongly */
  constructor(code: 'usage' | 'control_failed', message: string) {
    super(code, 'fatal', message);
  }
}

interface Answer {
  readonly text: string;
  /** Path of the next page. */
  readonly next: string | undefined;
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

function refusalOf(status: number, text: string, url: string): ControlError {
  if (status === 404) {
    return new ControlError(
      'control_failed',
      `${url} serves no such control path: it is no sandbox, its kind of exchange can not do this, or it needs --control`,
    );
  }
  let message = text.slice(0, 500);
  try {
    message = String((parseJson(text) as { readonly message?: unknown }).message);
  } catch {
    // What is no JSON is shown as it came.
  }
  const code = status === 400 ? 'usage' : 'control_failed';
  return new ControlError(code, `the sandbox refuses (HTTP ${status}): ${message}`);
}

async function call(url: string, path: string, init: RequestInit = {}): Promise<Answer> {
  let response: Response;
  let text: string;
  try {
    const signal = AbortSignal.timeout(TIMEOUT_MS);
    response = await fetch(url + path, { ...init, signal, redirect: 'error' });
    text = await readBounded(response);
  } catch (error) {
    const cause = error instanceof Error && error.cause !== undefined ? error.cause : error;
    throw new ControlError(
      'control_failed',
      `${url} does not answer (${messageOf(cause)}); give the address of the sandbox's ready line with --url`,
    );
  }
  if (!response.ok) throw refusalOf(response.status, text, url);
  const next = /^<(\/[^>]*)>; rel="next"$/.exec(response.headers.get('link') ?? '')?.[1];
  return { text, next };
}

/** Prints the result of an enveloped answer as one JSON document. */
function print(text: string): ExitCode {
  const { result } = parseJson(text) as { readonly result: unknown };
  process.stdout.write(`${JSON.stringify(result, null, 2)}\n`);
  return EXIT_CODES.ok;
}

/** What is sent and shown; the address is that of the sandbox's HTTP interface. */
export async function show(url: string, path: string): Promise<ExitCode> {
  return print((await call(url, PREFIX + path)).text);
}

/** Sends a change and shows what came of it. */
export async function change(
  url: string,
  method: 'POST' | 'PUT' | 'DELETE',
  path: string,
  body?: object,
): Promise<ExitCode> {
  const sent = body === undefined ? {} : { body: JSON.stringify(body) };
  return print((await call(url, PREFIX + path, { method, ...sent })).text);
}

/** Prints every trade ever issued in a market, one JSON object a line, page by page. */
export async function printTruth(
  url: string,
  query: Readonly<Record<string, string>>,
): Promise<ExitCode> {
  let path: string | undefined = `${PREFIX}truth?${new URLSearchParams(query).toString()}`;
  while (path !== undefined) {
    const answer: Answer = await call(url, path);
    process.stdout.write(answer.text);
    path = answer.next;
  }
  return EXIT_CODES.ok;
}

const NUMBERS: ReadonlySet<string> = new Set(['stockPrec', 'moneyPrec', 'activity']);

/**
 * A market from `name` and `field=value`; the sandbox checks what they say.
 *
 * @throws UsageError when one is no `field=value`
 */
export function describe(name: string, fields: readonly string[]): object {
  const entries = fields.map((text) => {
    const [field = '', ...rest] = text.split('=');
    const value = rest.join('=');
    if (field === '' || value === '') {
      throw new UsageError('field', text, 'write FIELD=VALUE, such as moneyPrec=3');
    }
    const isNumber = NUMBERS.has(field) && /^\d{1,15}(\.\d{1,15})?$/.test(value);
    return [field, isNumber ? Number(value) : value] as const;
  });
  return { ...Object.fromEntries(entries), name };
}
