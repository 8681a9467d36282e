import type { z } from 'zod';
import type { DialectName } from '../dialects.js';
import { type Endpoint, type EndpointName, endpointNames, endpoints } from '../endpoints.js';
import { signedFields } from '../params.js';
import { AUTH_HEADERS } from '../signing.js';
import { isOptional, type JsonObject, objectOf, SchemaBook } from './json-schema.js';
import { type Form, headerComponents, repliesOf } from './openapi-replies.js';

export interface DocumentOptions {
  /** Version of what is described, not of the description's format. */
  readonly version: string;
  /** Base URL of the exchange; without it the document speaks of the server that serves it. */
  readonly serverUrl?: string;
  /** Of the server; what is asked in another than the contract's is not described. Default: the contract's. */
  readonly dialect?: DialectName;
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
      'application/json': { schema: { ...objectOf({ ...properties, request }), required } },
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
      headers: headerComponents,
      schemas: book.named(),
    },
  };
}
