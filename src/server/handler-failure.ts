import { codeOf, messageOf } from '../kernel/errors.js';
import type { ServerEvents } from '../observe/events.js';

type HandlerFailure = Parameters<ServerEvents['handlerFailed']>[0];

/** Report of an error that a client only sees as an internal one. */
export function failureOf(endpoint: string, error: unknown): HandlerFailure {
  const stack = error instanceof Error ? error.stack : undefined;
  return {
    ...{ endpoint, code: codeOf(error), message: messageOf(error) },
    ...(stack === undefined ? {} : { stack }),
  };
}
