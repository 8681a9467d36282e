import assert from 'node:assert/strict';
import test from 'node:test';
import specs from '@asyncapi/specs';
import { Validator } from '@seriousme/openapi-schema-validator';
import { Ajv } from 'ajv';
import addFormats from 'ajv-formats';
import { z } from 'zod';
import { asyncApiDocument } from '../../../src/contract/documents/asyncapi.js';
import type { JsonObject } from '../../../src/contract/documents/json-schema.js';
import { openApiDocument } from '../../../src/contract/documents/openapi.js';
import { endpointNames, endpoints } from '../../../src/contract/endpoints.js';
import { ERROR_MESSAGES } from '../../../src/contract/error-shapes.js';
import { REALTIME_ERRORS, realtimeMethods, STATE_UPDATE } from '../../../src/contract/realtime.js';

const openApi = openApiDocument({ version: '1' });
const asyncApi = asyncApiDocument({ version: '1', serverUrl: 'wss://exchange.test/ws' });

/** What a document holds at a path such as `paths /api/v1/orders post`. */
function at(document: unknown, ...keys: string[]): unknown {
  return keys.reduce((part, key) => (part as JsonObject | undefined)?.[key], document);
}

/** All values of the key `$ref` below a part. */
function references(part: unknown): string[] {
  if (typeof part !== 'object' || part === null) return [];
  return Object.entries(part).flatMap(([key, value]) =>
    key === '$ref' ? [String(value)] : references(value),
  );
}

function resolves(document: unknown, reference: string): boolean {
  const keys = reference.replace(/^#\//, '').split('/');
  return at(document, ...keys) !== undefined;
}

test('the OpenAPI document is one by the official schema of OpenAPI 3.1', async () => {
  const { valid, errors } = await new Validator().validate(structuredClone(openApi));
  assert.ok(valid, JSON.stringify(errors));
  const broken = { ...structuredClone(openApi), paths: { 'no-slash': {} } };
  assert.equal((await new Validator().validate(broken)).valid, false);
});

test('the AsyncAPI document is one by the official schema of AsyncAPI 3.0', () => {
  const ajv = new Ajv({ strict: false, logger: false });
  addFormats.default(ajv);
  const validate = ajv.compile(specs.schemasWithoutId['3.0.0'] as object);
  assert.ok(validate(asyncApi), JSON.stringify(validate.errors));
  assert.equal(validate({ ...asyncApi, operations: { a: { action: 'shout' } } }), false);
});

test('every reference points to something, and every named schema is used', () => {
  for (const document of [openApi, asyncApi]) {
    const used = new Set(references(document));
    assert.ok(used.size > 5);
    for (const reference of used) assert.ok(resolves(document, reference), reference);
    for (const name of Object.keys(at(document, 'components', 'schemas') as object)) {
      assert.ok(used.has(`#/components/schemas/${name}`), `${name} is used`);
    }
  }
});

test('the same tables give the same documents', () => {
  assert.equal(JSON.stringify(openApiDocument({ version: '1' })), JSON.stringify(openApi));
  const serverUrl = 'wss://exchange.test/ws';
  const again = asyncApiDocument({ version: '1', serverUrl });
  assert.equal(JSON.stringify(again), JSON.stringify(asyncApi));
});

test('version and server are what was given', () => {
  const given = openApiDocument({ version: '7', serverUrl: 'https://exchange.test/base' });
  assert.equal(at(given, 'info', 'version'), '7');
  assert.deepEqual(given.servers, [{ url: 'https://exchange.test/base' }]);
  assert.deepEqual(asyncApi.servers, {
    exchange: { host: 'exchange.test', pathname: '/ws', protocol: 'wss' },
  });
  assert.equal('servers' in asyncApiDocument({ version: '1' }), false);
});

test('the paths are those of the table, each with its forms', () => {
  const paths = openApi.paths as Record<string, JsonObject>;
  const described = Object.entries(paths).map(([path, forms]) => [path, Object.keys(forms)]);
  const expected = endpointNames.map((name) => {
    const { path, access } = endpoints[name];
    return [path, access === 'public' ? ['get', 'post'] : ['post']];
  });
  assert.deepEqual(described, expected);
});

for (const name of endpointNames) {
  const { path, access, params, envelope, summary } = endpoints[name];
  const shape: Readonly<Record<string, z.ZodType>> = params.shape;
  const fields = Object.keys(shape);

  test(`${name}: parameters, forms and replies as in the table`, () => {
    const post = at(openApi, 'paths', path, 'post') as JsonObject;
    const body = at(post, 'requestBody', 'content', 'application/json', 'schema') as JsonObject;
    const properties = body.properties as Record<string, JsonObject>;
    assert.deepEqual(Object.keys(properties), [...fields, 'request', 'nonce']);
    assert.equal(properties.request?.const, path);
    assert.deepEqual(Object.keys((post.security as JsonObject[])[0] ?? {}).length, 3);
    assert.ok(String(post.summary).startsWith(summary));
    const isRequired = (field: string) => (body.required as string[]).includes(field);
    for (const field of fields) {
      const schema: z.ZodType = shape[field] ?? z.never();
      const filled = schema.safeParse(undefined);
      assert.equal(isRequired(field), !filled.success, field);
      assert.equal(properties[field]?.default, filled.data, field);
      assert.ok(String(properties[field]?.description).length > 4, `${field} is described`);
    }
    if (access === 'public') {
      const parameters = at(openApi, 'paths', path, 'get', 'parameters') as JsonObject[];
      const told = parameters.map((parameter) => [parameter.name, parameter.required]);
      assert.deepEqual(
        told,
        fields.map((field) => [field, isRequired(field)]),
      );
    }
    const success = at(post, 'responses', '200', 'content', 'application/json', 'schema');
    const isEnvelope = at(success, 'properties', 'success', 'const') === true;
    assert.equal(isEnvelope, envelope);
    assert.deepEqual(Object.keys(post.responses as object), ['200', '400', '404', '429', '5XX']);
  });
}

test('the error bodies are those of the contract, each where it can come', () => {
  const schemas = at(openApi, 'components', 'schemas') as Record<string, JsonObject>;
  const messageOf = (name: string) => at(schemas[name], 'properties', 'message', 'const');
  assert.equal(messageOf('InvalidInput'), ERROR_MESSAGES.invalidInput);
  assert.equal(messageOf('AuthenticationFailure'), ERROR_MESSAGES.authenticationFailure);
  assert.equal(messageOf('OperationBlocked'), ERROR_MESSAGES.operationBlocked);
  const bodies = (path: string, form: string) =>
    references(at(openApi, 'paths', path, form, 'responses', '400', 'content')).map((reference) =>
      reference.slice(reference.lastIndexOf('/') + 1),
    );
  assert.deepEqual(bodies('/api/v1/public/markets', 'get'), ['InvalidInput']);
  assert.deepEqual(bodies('/api/v1/public/ticker', 'get'), ['InvalidInput', 'FieldErrors']);
  assert.deepEqual(bodies('/api/v1/order/new', 'post'), [
    'InvalidInput',
    'FieldErrors',
    'AuthenticationFailure',
    'OperationBlocked',
  ]);
});

test('every method has its call and its answers, and the update is the only push', () => {
  const operations = asyncApi.operations as Record<string, JsonObject>;
  const messages = at(asyncApi, 'components', 'messages') as Record<string, JsonObject>;
  const received = Object.values(operations).filter(({ action }) => action === 'receive');
  assert.equal(received.length, Object.keys(realtimeMethods).length);
  const named = Object.keys(messages)
    .filter((key) => key.endsWith('Request'))
    .map((key) => at(messages[key], 'payload', 'properties', 'method', 'const'));
  assert.deepEqual(named, Object.keys(realtimeMethods));
  const pushed = Object.entries(operations).filter(([, { action }]) => action === 'send');
  assert.equal(pushed.length, 1);
  assert.equal(messages.stateUpdate?.name, STATE_UPDATE);
  const codes = at(messages.error, 'payload', 'properties', 'error', 'oneOf') as JsonObject[];
  assert.deepEqual(
    codes.map((kind) => at(kind, 'properties', 'code', 'const')),
    Object.values(REALTIME_ERRORS).map(({ code }) => code),
  );
});
