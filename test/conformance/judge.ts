import { z } from 'zod';
import { type EndpointName, endpoints } from '../../src/contract/endpoints.js';
import { ERROR_MESSAGES, readBody } from '../../src/contract/error-shapes.js';
import { judgeRefusalReading } from './client-reading.js';
import type { Answer } from './exchange-probe.js';
import type { Findings } from './outcome.js';

const envelope = z.strictObject({
  code: z.literal(400),
  success: z.literal(false),
  message: z.union([z.string(), z.record(z.string(), z.array(z.string()).min(1))]),
  result: z.tuple([]),
});
const notFound = z.strictObject({
  timestamp: z.number(),
  status: z.literal(404),
  error: z.literal('Not Found'),
  message: z.literal(''),
  path: z.string(),
});

export interface ExpectedRefusal {
  /** The field that may be named as missing or malformed; undefined: `invalid input` only. */
  readonly field?: string;
  /** The text that is due instead of `invalid input`. */
  readonly message?: string;
}

/** What was seen, short enough for a remark. */
function shown({ target, status, text }: Answer): string {
  return `${target} gave ${status} ${text.slice(0, 120)}`;
}

function isOneOfTheContract(told: unknown): boolean {
  return Object.values<unknown>(ERROR_MESSAGES).includes(told);
}

/**
 * Judges the answer to a request that the contract does not admit. The contract's own bodies pass,
 * the family's are a known variation, and anything that looks like data is a failure. The client
 * must read it as what it is.
 */
export function judgeRefusal(
  name: EndpointName,
  answer: Answer,
  findings: Findings,
  { field, message = ERROR_MESSAGES.invalidInput }: ExpectedRefusal = {},
): void {
  const { status, json, contentType, text } = answer;
  // Data where none is due is the server's failure; reading it as such is none of the client's.
  const isData = readBody(json, endpoints[name].envelope).kind === 'success';
  if (!isData) judgeRefusalReading(name, answer, findings);
  const body = envelope.safeParse(json);
  if (status === 400 && body.success) {
    const told = body.data.message;
    const isDue =
      typeof told === 'string'
        ? told === message
        : field !== undefined && Object.hasOwn(told, field);
    // Another text of the contract says something else; any other text is the family's wording.
    if (!isDue && isOneOfTheContract(told))
      findings.fail(`${shown(answer)} where ${message} is due`);
    else if (!isDue) findings.differs('errorShapes', shown(answer));
    return;
  }
  const isPage = contentType.startsWith('text/html') || text.trimStart().startsWith('<');
  if (status === 400 && isPage) return;
  if (status === 404 && notFound.safeParse(json).success) return;
  const reading = readBody(json, endpoints[name].envelope);
  const isRefused = reading.kind !== 'success' && reading.kind !== 'unrecognised';
  if (isRefused && status < 500) findings.differs('errorShapes', shown(answer));
  else findings.fail(shown(answer));
}

/** Judges the answer for a path that does not exist. */
export function judgeNotFound(answer: Answer, path: string, findings: Findings): void {
  const body = notFound.safeParse(answer.json);
  if (answer.status === 404) judgeRefusalReading('ticker', answer, findings);
  if (answer.status === 404 && body.success) {
    findings.check(body.data.path === path, `the path is told as ${body.data.path}`);
  } else if (answer.status === 404) {
    findings.differs('errorShapes', shown(answer));
  } else {
    findings.fail(shown(answer));
  }
}
