import assert from 'node:assert/strict';
import test from 'node:test';
import { Validator } from '@seriousme/openapi-schema-validator';
import { ENDPOINTS } from '../../../src/console/api/endpoints.js';
import { openApiDocument } from '../../../src/console/api/openapi.js';

interface Described {
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
  readonly components: { readonly schemas: Readonly<Record<string, unknown>> };
}

interface Operation {
  readonly parameters: readonly { readonly name: string; readonly in: string }[];
  readonly requestBody?: object;
}

const document = openApiDocument('1') as unknown as Described;

test('the document is one by the official schema of OpenAPI 3.1', async () => {
  const { valid, errors } = await new Validator().validate(structuredClone(openApiDocument('1')));
  assert.ok(valid, JSON.stringify(errors));
});

test('every endpoint is described, with each part of its path and its body', () => {
  for (const [name, { path, method, input }] of Object.entries(ENDPOINTS)) {
    const operation = document.paths[path]?.[method];
    assert.ok(operation !== undefined, name);
    const described = operation.parameters.map((one) => one.name);
    const parts = Array.from(path.matchAll(/\{(\w+)\}/g), ([, part = '']) => part);
    for (const part of parts) {
      assert.ok(part in input.shape, `${name}: ${part} is no input`);
      assert.ok(described.includes(part), `${name}: ${part}`);
    }
    assert.equal('requestBody' in operation, method === 'post', name);
  }
});

test('every reference leads to a schema, and every schema is used or of an event', () => {
  const text = JSON.stringify(document);
  const used = new Set(
    Array.from(text.matchAll(/#\/components\/schemas\/(\w+)/g), ([, one]) => one),
  );
  for (const name of Object.keys(document.components.schemas)) {
    assert.ok(used.has(name) || name.startsWith('Event'), name);
  }
  for (const name of used) assert.ok(name && name in document.components.schemas, name);
});
