import { messageOf, TapekeepError } from '../../kernel/errors.js';
import { parseJson } from '../../kernel/json.js';
import { EXIT_CODES, type ExitCode } from '../exit-codes.js';

/** Time for one request, and the most that is read of its answer. */
const TIMEOUT_MS = 30_000;
const ANSWER_MAX_CHARS = 4 * 1024 * 1024;

/** The replay did not do what it was asked for; the text says why. */
class ReplayControlError extends TapekeepError {
  /** @param code `usage` for what was asked wrongly */
  constructor(code: 'usage' | 'control_failed', message: string) {
    super(code, 'fatal', message);
  }
}

export interface Steering {
  /** Address of the replay's HTTP interface, without a path. */
  readonly url: string;
  readonly session: string | undefined;
  readonly method: 'GET' | 'POST' | 'DELETE';
  readonly path: string;
  readonly body: object | undefined;
}

/** Steers a running replay, and prints what came of it as one JSON document. */
export async function steerReplay(steering: Steering): Promise<ExitCode> {
  const { url, session, method, path, body } = steering;
  let status: number;
  let text: string;
  try {
    const response = await fetch(`${url}/replay/${path}`, {
      method,
      signal: AbortSignal.timeout(TIMEOUT_MS),
      redirect: 'error',
      headers: session === undefined ? {} : { 'x-tapekeep-session': session },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    status = response.status;
    text = await response.text();
  } catch (error) {
    const cause = error instanceof Error && error.cause !== undefined ? error.cause : error;
    throw new ReplayControlError(
      'control_failed',
      `${url} does not answer (${messageOf(cause)}); give the address of the replay's ready line with --url`,
    );
  }
  if (status !== 200) throw refusalOf(status, text, url);
  const { result } = parseJson(text.slice(0, ANSWER_MAX_CHARS)) as { readonly result: unknown };
  process.stdout.write(`${JSON.stringify(readable(result), null, 2)}\n`);
  return EXIT_CODES.ok;
}

function refusalOf(status: number, text: string, url: string): ReplayControlError {
  if (status === 404) {
    return new ReplayControlError('control_failed', `${url} is no replay`);
  }
  let message = text.slice(0, 500);
  try {
    message = String((parseJson(text) as { readonly message?: unknown }).message);
  } catch {
    // What is no JSON is shown as it came.
  }
  const code = status === 400 ? 'usage' : 'control_failed';
  return new ReplayControlError(code, `the replay refuses (HTTP ${status}): ${message}`);
}

const MOMENT = /^(now|from|to)Ms$/;

/** Moments as people read them beside their milliseconds. */
function readable(result: unknown): unknown {
  if (Array.isArray(result)) return result.map(readable);
  if (typeof result !== 'object' || result === null) return result;
  const entries = Object.entries(result).flatMap(([name, value]): Array<[string, unknown]> => {
    const [, moment] = MOMENT.exec(name) ?? [];
    if (moment === undefined || typeof value !== 'number') return [[name, value]];
    return [
      [moment, new Date(value).toISOString()],
      [name, value],
    ];
  });
  return Object.fromEntries(entries);
}
