import type { FastifyInstance } from 'fastify';
import { asyncApiDocument, realtimeServers } from '../../contract/documents/asyncapi.js';
import type { JsonObject } from '../../contract/documents/json-schema.js';
import { openApiDocument } from '../../contract/documents/openapi.js';

/** Version of the contract that is served: the one in its paths. */
const API_VERSION = '1';

const OPENAPI_PATH = '/openapi.json';
const ASYNCAPI_PATH = '/asyncapi.json';
/** Paths beside the contract's own that this server answers. */
export const DOCUMENT_PATHS = [OPENAPI_PATH, ASYNCAPI_PATH] as const;

/** Made at the first request, since most servers are never asked. */
function once<T>(make: () => T): () => T {
  let made: T | undefined;
  return () => {
    made ??= make();
    return made;
  };
}

/** The WebSocket under the name by which the caller reached us; nothing when it gave none. */
function serversFor(host: string | undefined, realtimePath: string): JsonObject {
  const url = `ws://${host ?? ''}${realtimePath}`;
  return host !== undefined && URL.canParse(url) ? { servers: realtimeServers(url) } : {};
}

/**
 * Serves the descriptions of both interfaces, made from the tables of the contract: OpenAPI for
 * HTTP, AsyncAPI for the WebSocket at `realtimePath`.
 */
export function addDocuments(app: FastifyInstance, realtimePath: string): void {
  const openApi = once(() => JSON.stringify(openApiDocument({ version: API_VERSION })));
  const asyncApi = once(() => asyncApiDocument({ version: API_VERSION }));
  app.get(OPENAPI_PATH, (_request, reply) => {
    return reply.type('application/json; charset=utf-8').send(openApi());
  });
  app.get(ASYNCAPI_PATH, (request, reply) => {
    const document = { ...asyncApi(), ...serversFor(request.headers.host, realtimePath) };
    return reply.type('application/json; charset=utf-8').send(JSON.stringify(document));
  });
}
