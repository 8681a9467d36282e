import assert from 'node:assert/strict';
import test from 'node:test';
import { endpointNames, endpoints } from '../../../src/contract/endpoints.js';
import { ERROR_MESSAGES } from '../../../src/contract/error-shapes.js';
import { AUTH_HEADERS } from '../../../src/contract/signing.js';
import {
  BARE,
  type Carried,
  ERROR_CODES,
  type Fields,
  PATHS,
  PAYLOADS,
  RESOURCES,
  SIGNED_HEADERS,
} from '../../conformance/tables.js';
import { lookAtPayload } from '../../conformance/wire-form.js';
import { specimens } from './specimens.js';

/** The tables that exchanges are judged by, and the schemas of client and server, say the same. */

const jsonTypeOf = (carried: Carried) =>
  ['NUMERIC', 'WHOLE', 'ID'].includes(carried) ? 'number' : 'string';

test('every resource has a table', () => {
  assert.deepEqual(Object.keys(RESOURCES).sort(), Object.keys(specimens).sort());
});

for (const [name, table] of Object.entries(RESOURCES) as Array<[string, Fields]>) {
  test(`${name}: the schema has the fields of the table, in its JSON types`, () => {
    const { example = {}, schema } = specimens[name] ?? {};
    assert.deepEqual(Object.keys(table).sort(), Object.keys(example).sort());
    for (const [field, carried] of Object.entries(table)) {
      assert.equal(typeof example[field], jsonTypeOf(carried), field);
    }
    const form = { kind: 'fields', fields: table } as const;
    assert.deepEqual(lookAtPayload(form, example), { faults: [], loose: [], more: [] });
    for (const field of Object.keys(table)) {
      const { [field]: _gone, ...rest } = example;
      assert.deepEqual(lookAtPayload(form, rest).faults, [`result has no ${field}`]);
      const broken = lookAtPayload(form, { ...example, [field]: null });
      assert.equal(broken.faults.length, 1, field);
      // What the table admits the schema must take, or a good answer would be refused.
      assert.ok(schema?.safeParse(example).success);
    }
  });
}

test('paths, envelopes, headers and error texts are those of the tables', () => {
  assert.deepEqual(Object.keys(PATHS).sort(), [...endpointNames].sort());
  assert.deepEqual(Object.keys(PAYLOADS).sort(), [...endpointNames].sort());
  for (const name of endpointNames) {
    assert.equal(endpoints[name].path, PATHS[name]);
    assert.equal(endpoints[name].envelope, !BARE.includes(name), name);
  }
  assert.deepEqual(Object.values(AUTH_HEADERS).sort(), [...SIGNED_HEADERS].sort());
  assert.deepEqual(Object.values(ERROR_MESSAGES).sort(), Object.keys(ERROR_CODES).sort());
});

const at = (carried: Carried, value: unknown) =>
  lookAtPayload({ kind: 'fields', fields: { x: carried } }, { x: value });

test('numbers as text and exponents are loose, anything else than the JSON type is a fault', () => {
  const loose: ReadonlyArray<readonly [Carried, unknown]> = [
    ...([
      ['NUMERIC', '1.5'],
      ['WHOLE', '5'],
      ['WHOLE', '1.7E1'],
    ] as const),
    ...([
      ['DECIMAL', '1e-8'],
      ['SIGNED', '-1e2'],
      ['POSITIVE', '1E5'],
    ] as const),
  ];
  for (const [carried, value] of loose) {
    const { faults, loose: found } = at(carried, value);
    assert.deepEqual([faults.length, found.length], [0, 1], `${carried} ${value}`);
  }
  const faults: ReadonlyArray<readonly [Carried, unknown]> = [
    ...([
      ['STRING', ''],
      ['STRING', 5],
      ['STRING', 'x'.repeat(65)],
      ['SIDE', 'BUY'],
    ] as const),
    ...([
      ['DECIMAL', 1],
      ['DECIMAL', '-1'],
      ['DECIMAL', 'NaN'],
      ['DECIMAL', '1,5'],
    ] as const),
    ...([
      ['DECIMAL', '.5'],
      ['POSITIVE', '0.00'],
      ['SIGNED', '+1'],
      ['SIGNED', ''],
    ] as const),
    ...([
      ['NUMERIC', -1],
      ['NUMERIC', 'x'],
      ['NUMERIC', null],
      ['NUMERIC', true],
    ] as const),
    ...([
      ['WHOLE', 1.5],
      ['WHOLE', 2 ** 53],
      ['WHOLE', ''],
    ] as const),
  ];
  for (const [carried, value] of faults) {
    assert.equal(at(carried, value).faults.length, 1, `${carried} ${value}`);
  }
});
