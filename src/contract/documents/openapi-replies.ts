import type { Endpoint } from '../endpoints.js';
import {
  BAD_REQUEST_PAGE,
  ERROR_MESSAGES,
  errorEnvelope,
  notFoundBody,
  requiredFieldText,
  successEnvelope,
} from '../error-shapes.js';
import {
  constants,
  isOptional,
  type JsonObject,
  objectOf,
  type SchemaBook,
} from './json-schema.js';

/** How an endpoint is asked: `get` is the open form, `post` the signed one. */
export type Form = 'get' | 'post';

const JSON_TYPE = 'application/json';
const BAD_REQUEST_STATUS = 400;

/** Headers of every reply (field notes, HTTP); a server may leave the rate limit out. */
const REPLY_HEADERS: JsonObject = {
  'x-ratelimit-limit': {
    description: 'Requests that one window admits',
    schema: { type: 'integer', minimum: 1 },
  },
  'x-ratelimit-remaining': {
    description: 'Requests that are left in this window',
    schema: { type: 'integer', minimum: 0 },
  },
  'x-ratelimit-reset': {
    description: 'Seconds until the next window',
    schema: { type: 'integer', minimum: 1 },
  },
};

const RETRY_AFTER: JsonObject = {
  'retry-after': {
    description: 'Seconds to wait',
    required: true,
    schema: { type: 'integer', minimum: 1 },
  },
};

function headersOf(...names: string[]): JsonObject {
  return Object.fromEntries(
    [...Object.keys(REPLY_HEADERS), ...names].map((name) => [
      name,
      { $ref: `#/components/headers/${name}` },
    ]),
  );
}

/** The headers that replies refer to. */
export const headerComponents: JsonObject = { ...REPLY_HEADERS, ...RETRY_AFTER };

function reply(description: string, content: JsonObject, ...headers: string[]): JsonObject {
  return { description, headers: headersOf(...headers), content };
}

/** An error body whose message is one text of the contract. */
function errorBody(book: SchemaBook, name: string, message: string): JsonObject {
  const body = errorEnvelope(BAD_REQUEST_STATUS, message);
  return book.name(name, objectOf(constants({ ...body })));
}

function fieldErrorsBody(book: SchemaBook): JsonObject {
  const { message: _message, ...fixed } = errorEnvelope(BAD_REQUEST_STATUS, {});
  const texts = { type: 'array', minItems: 1, items: { type: 'string' } };
  return book.name('FieldErrors', {
    ...objectOf({
      ...constants(fixed),
      message: {
        type: 'object',
        description: 'Texts by the name of the field that is missing or malformed',
        additionalProperties: texts,
        minProperties: 1,
      },
    }),
    examples: [errorEnvelope(BAD_REQUEST_STATUS, { market: [requiredFieldText('market')] })],
  });
}

function badRequest(endpoint: Endpoint, form: Form, book: SchemaBook): JsonObject {
  const required = Object.values(endpoint.params.shape).filter((param) => !isOptional(param));
  const bodies = [errorBody(book, 'InvalidInput', ERROR_MESSAGES.invalidInput)];
  if (required.length > 0) bodies.push(fieldErrorsBody(book));
  if (form === 'post') {
    const { authenticationFailure } = ERROR_MESSAGES;
    bodies.push(errorBody(book, 'AuthenticationFailure', authenticationFailure));
  }
  if (endpoint.isBlockable) {
    bodies.push(errorBody(book, 'OperationBlocked', ERROR_MESSAGES.operationBlocked));
  }
  return reply('The request is not accepted as it is', {
    [JSON_TYPE]: { schema: { oneOf: bodies } },
    'text/html': {
      schema: { type: 'string', description: 'What came cannot be read as a request' },
      example: BAD_REQUEST_PAGE,
    },
  });
}

function notFoundReply(book: SchemaBook): JsonObject {
  const { timestamp: _timestamp, path: _path, ...fixed } = notFoundBody('', 0);
  const body = objectOf({
    timestamp: { type: 'integer', minimum: 0, description: "The exchange's time, UNIX seconds" },
    ...constants(fixed),
    path: { type: 'string', description: 'The path that was asked for' },
  });
  return reply('No such path, or no data to be found', {
    [JSON_TYPE]: { schema: book.name('NotFound', body) },
  });
}

/** Refusals that the contract has no text for. */
function otherErrorBody(book: SchemaBook): JsonObject {
  const { code: _code, message: _message, ...fixed } = errorEnvelope(0, '');
  const body = objectOf({
    code: { type: 'integer', description: 'The HTTP status once more' },
    message: { type: 'string' },
    ...constants(fixed),
  });
  return { [JSON_TYPE]: { schema: book.name('Failure', body) } };
}

function success(endpoint: Endpoint, book: SchemaBook): JsonObject {
  const payload = book.of(endpoint.result.schema);
  const { result: _result, ...fixed } = successEnvelope(undefined);
  const schema = endpoint.envelope ? objectOf({ ...constants(fixed), result: payload }) : payload;
  return reply('Success', { [JSON_TYPE]: { schema } });
}

/** Every reply that an endpoint may give in one of its forms (contract, Endpoints and Errors). */
export function repliesOf(endpoint: Endpoint, form: Form, book: SchemaBook): JsonObject {
  return {
    '200': success(endpoint, book),
    '400': badRequest(endpoint, form, book),
    '404': notFoundReply(book),
    '429': reply('Too many requests', otherErrorBody(book), 'retry-after'),
    '5XX': reply('The exchange failed', otherErrorBody(book)),
  };
}
