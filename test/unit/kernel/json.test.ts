import assert from 'node:assert/strict';
import test from 'node:test';
import {
  JSON_DEPTH_MAX,
  JSON_VALUES_MAX,
  JsonBoundsError,
  parseJson,
  parseNumbersAsText,
} from '../../../src/kernel/json.js';
import fc from '../../support/properties.js';

function isWithin(text: string): boolean {
  try {
    parseJson(text);
    return true;
  } catch (error) {
    assert.ok(error instanceof JsonBoundsError);
    return false;
  }
}

const nested = (depth: number, open = '[', close = ']') =>
  `${open.repeat(depth)}${close.repeat(depth)}`;

test('nesting is bounded, of arrays, objects and both', () => {
  for (const [open, close] of [
    ['[', ']'],
    ['{"a":', '1}'],
    ['[{"[]":', '1}]'],
  ] as const) {
    const levels = open.startsWith('[{') ? 2 : 1;
    const inner = open === '[' ? '' : '1';
    const text = (depth: number) =>
      `${open.repeat(depth)}${inner}${close.replace('1', '').repeat(depth)}`;
    const most = JSON_DEPTH_MAX / levels;
    assert.equal(JSON.stringify(parseJson(text(most))), text(most));
    assert.ok(!isWithin(text(most + 1)), open);
  }
});

test('brackets in texts count for nothing, whatever is escaped', () => {
  for (const text of [
    JSON.stringify(nested(100)),
    JSON.stringify({ [nested(100, '{', '}')]: ['\\', '"', '\\"[[[[', ']]'.repeat(50)] }),
    JSON.stringify('[\\'.repeat(200)),
  ]) {
    assert.deepEqual(parseJson(text), JSON.parse(text));
  }
  const depth = JSON_DEPTH_MAX + 1;
  const hidden = `${'["]]",'.repeat(depth)}1${']'.repeat(depth)}`;
  assert.ok(!isWithin(hidden), 'closing brackets in texts close nothing');
});

test('the number of values is bounded, too', () => {
  const many = (value: string, count: number) =>
    `[${Array.from({ length: count }, () => value).join(',')}]`;
  assert.ok(isWithin(many('1', JSON_VALUES_MAX)));
  assert.ok(!isWithin(many('1', JSON_VALUES_MAX + 1)));
  assert.ok(isWithin(many('{}', JSON_VALUES_MAX / 2)));
  assert.ok(!isWithin(many('{}', JSON_VALUES_MAX / 2 + 1)));
  assert.ok(isWithin(JSON.stringify(','.repeat(JSON_VALUES_MAX * 2))));
});

test('what is no JSON is left to JSON.parse', () => {
  for (const text of ['', '"', '"\\', ']]]]', '{"a":', '\u0000', '"[[[[[[[[[[[[[[[[[[[[[[[[[[[']) {
    assert.throws(() => parseJson(text), { name: 'SyntaxError' });
  }
});

test('the depth is that of the parsed value', () => {
  const depthOf = (value: unknown): number =>
    value === null || typeof value !== 'object'
      ? 0
      : 1 + Math.max(0, ...Object.values(value).map(depthOf));
  let refused = 0;
  fc.assert(
    fc.property(fc.jsonValue({ maxDepth: 6 }), fc.integer({ min: 12, max: 16 }), (value, wraps) => {
      const text = `${'['.repeat(wraps)}${JSON.stringify(value)}${']'.repeat(wraps)}`;
      const depth = depthOf(JSON.parse(text));
      assert.equal(isWithin(text), depth <= JSON_DEPTH_MAX);
      if (depth > JSON_DEPTH_MAX) refused += 1;
    }),
    { numRuns: 2000 },
  );
  assert.ok(refused > 20, `${refused} texts were too deep`);
});

test('every number keeps the form in which it was written; texts stay as they are', () => {
  const numbers = [
    '1E-7',
    '1e+2',
    '0.0000001',
    '12345678901234567890.123',
    '-0',
    '-1.50',
    '7',
    '0.10',
  ];
  const text = `{"a":[${numbers.join(' , ')}],"b\\"1":"x\\\\","-2":-2e0,"c":"5 \\" 6","d":[true,null]}`;
  assert.deepEqual(parseNumbersAsText(text), {
    ...{ a: numbers, 'b"1': 'x\\', '-2': '-2e0', c: '5 " 6', d: [true, null] },
  });
  const form = fc.json({ maxDepth: 3 });
  const texts = (value: unknown): unknown =>
    JSON.parse(JSON.stringify(value), (_, one) => (typeof one === 'number' ? String(one) : one));
  fc.assert(
    fc.property(form, (one) => {
      assert.deepEqual(
        JSON.parse(JSON.stringify(parseNumbersAsText(JSON.stringify(JSON.parse(one))))),
        texts(JSON.parse(one)),
      );
    }),
  );
});
