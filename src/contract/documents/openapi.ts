import type { z } from 'zod';
import type { DialectName } from '../dialects.js';
import { type Endpoint, type EndpointName, endpointNames, endpoints } from '../endpoints.js';
import {
  BAD_REQUEST_PAGE,
  ERROR_MESSAGES,
  errorEnvelope,
  notFoundBody,
  requiredFieldText,
  successEnvelope,
} from '../error-shapes.js';
import { signedFields } from '../params.js';
import { AUTH_HEADERS } from '../signing.js';
import { constants, isOptional, type JsonObject, objectOf, SchemaBook } from './json-schema.js';

export interface DocumentOptions {
  /** Version of what is described, not of the description's format. */
  readonly version: string;
  /** Base URL of the exchange; without it the document speaks of the server that serves it. */
  readonly serverUrl?: string;
  /** Dialect of the server; what is asked in another than the contract's is not described. Default: the contract's. */
  readonly dialect?: DialectName;
}

/** How an endpoint is asked: `get` is the open form, `post` the signed one. */
type Form = 'get' | 'post';

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

/** All headers that replies refer to. */
const HEADERS: JsonObject = {
  ...REPLY_HEADERS,
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
function repliesOf(endpoint: Endpoint, form: Form, book: SchemaBook): JsonObject {
  return {
    '200': success(endpoint, book),
    '400': badRequest(endpoint, form, book),
    '404': notFoundReply(book),
    '429': reply('Too many requests', otherErrorBody(book), 'retry-after'),
    '5XX': reply('The exchange failed', otherErrorBody(book)),
  };
}

const AUTH_TEXTS: Readonly<Record<keyof typeof AUTH_HEADERS, string>> = {
  apiKey: 'The public API key',
  payload: 'Base64 of exactly the bytes of the body',
  signature:
    'Lower-case hex HMAC-SHA512, under the secret key, of the text of the payload header. ' +
    'Some exchanges sign the body itself.',
};

function securitySchemes(): JsonObject {
  return Object.fromEntries(
    Object.entries(AUTH_HEADERS).map(([name, header]) => [
      name,
      {
        type: 'apiKey',
        in: 'header',
        name: header,
        description: AUTH_TEXTS[name as keyof typeof AUTH_HEADERS],
      },
    ]),
  );
}

/** All three headers together. */
function signedSecurity(): JsonObject[] {
  return [Object.fromEntries(Object.keys(AUTH_HEADERS).map((name) => [name, []]))];
}

/** Description and examples belong to the parameter, the rest to its schema. */
function parameterOf(name: string, schema: z.ZodType, book: SchemaBook): JsonObject {
  const { description, examples, ...rest } = book.of(schema);
  const example = Array.isArray(examples) ? { example: examples[0] as unknown } : {};
  return {
    name,
    in: 'query',
    required: !isOptional(schema),
    ...(description === undefined ? {} : { description }),
    schema: rest,
    ...example,
  };
}

function signedBody({ path, params }: Endpoint, book: SchemaBook): JsonObject {
  const fields = { ...params.shape, ...signedFields.shape } as Record<string, z.ZodType>;
  const properties = Object.fromEntries(
    Object.entries(fields).map(([name, schema]) => [name, book.of(schema)]),
  );
  // A signature is for one path: it is the only value that passes.
  const request = { ...(properties.request as JsonObject), const: path };
  const required = Object.keys(fields).filter((name) => !isOptional(fields[name] as z.ZodType));
  return {
    required: true,
    content: {
      [JSON_TYPE]: { schema: { ...objectOf({ ...properties, request }), required } },
    },
  };
}

function operationOf(name: EndpointName, form: Form, book: SchemaBook): JsonObject {
  const endpoint: Endpoint = endpoints[name];
  const isSecondForm = form === 'post' && endpoint.access === 'public';
  const shared = {
    operationId: isSecondForm ? `${name}Signed` : name,
    summary: isSecondForm ? `${endpoint.summary} (signed form)` : endpoint.summary,
    tags: [endpoint.access],
  };
  if (form === 'get') {
    const parameters = Object.entries(endpoint.params.shape).map(([field, schema]) =>
      parameterOf(field, schema as z.ZodType, book),
    );
    return { ...shared, parameters, security: [], responses: repliesOf(endpoint, form, book) };
  }
  return {
    ...shared,
    security: signedSecurity(),
    requestBody: signedBody(endpoint, book),
    responses: repliesOf(endpoint, form, book),
  };
}

/**
 * The HTTP interface as an OpenAPI 3.1 document, made from the endpoint table. The same table gives
 * the same document. It describes the contract; departures that a server may be set to are not in
 * it.
 */
export function openApiDocument({
  version,
  serverUrl = '/',
  dialect = 'contract',
}: DocumentOptions): JsonObject {
  const book = new SchemaBook('draft-2020-12');
  const paths: JsonObject = {};
  for (const name of endpointNames) {
    const { path, access } = endpoints[name];
    paths[path] = {
      ...(access === 'public' ? { get: operationOf(name, 'get', book) } : {}),
      post: operationOf(name, 'post', book),
    };
  }
  return {
    openapi: '3.1.0',
    info: {
      title: 'Spot exchange: HTTP interface',
      version,
      description:
        'Market data, balances and orders of a spot exchange. Prices and amounts are decimal ' +
        'texts, times are UNIX seconds. Public endpoints answer an open GET and a signed POST alike.' +
        (dialect === 'contract'
          ? ''
          : ` This server is asked in the dialect ${dialect}, whose paths and parameters differ from these.`),
    },
    servers: [{ url: serverUrl }],
    tags: [
      { name: 'public', description: 'Market data: no credentials needed for GET' },
      { name: 'private', description: 'Account and orders: signed POST only' },
    ],
    paths,
    components: {
      securitySchemes: securitySchemes(),
      headers: HEADERS,
      schemas: book.named(),
    },
  };
}
