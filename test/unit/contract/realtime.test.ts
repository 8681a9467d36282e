import assert from 'node:assert/strict';
import test from 'node:test';
import {
  errorMessage,
  familyUpdateMessage,
  REALTIME_ERRORS,
  readServerFrame,
  realtimeMethods,
  realtimeRequest,
  responseMessage,
  STATUS_SUCCESS,
  stateParams,
  updateMessage,
} from '../../../src/contract/realtime.js';

const figures = {
  ...{ last: '61837.63', open: '61100', close: '61837.63', high: '62000.5' },
  ...{ low: '60999.99', deal: '73912345.1', volume: '1195.2' },
};
const record = { period: 86_400, ...figures, change: '1.13' };

/** What arrives at the other end of the wire. */
const overWire = (frame: unknown): unknown => JSON.parse(JSON.stringify(frame));
const read = (frame: unknown) => readServerFrame(overWire(frame));

test('the methods are those of the contract, and the ping of the family', () => {
  assert.deepEqual(Object.keys(realtimeMethods).sort(), [
    'server.ping',
    'state.query',
    'state.subscribe',
    'state.unsubscribe',
  ]);
});

test('a state is asked for by market and period, both required', () => {
  assert.deepEqual(stateParams.parse(['BTC_USDT', 60]), ['BTC_USDT', 60]);
  assert.deepEqual(stateParams.parse(['BTC_USDT', '60']), ['BTC_USDT', 60]);
  for (const params of [
    ...[[], ['BTC_USDT'], ['', 60], [60, 'BTC_USDT'], ['BTC_USDT', 60, 1], null, {}],
    ...[0, -60, 0.5, null, 'text', 2 ** 53].map((period) => ['BTC_USDT', period]),
  ]) {
    assert.equal(stateParams.safeParse(params).success, false, JSON.stringify(params));
  }
  assert.equal(realtimeMethods['state.unsubscribe'].params.safeParse([]).success, true);
  assert.equal(realtimeMethods['state.unsubscribe'].params.safeParse([1]).success, false);
});

test('a request has method, params and id, each within its bounds', () => {
  const request = { method: 'state.query', params: ['BTC_USDT', 60], id: 1 };
  assert.deepEqual(realtimeRequest.parse({ ...request, extra: 1 }), request);
  assert.equal(realtimeRequest.parse({ ...request, id: 'a-1' }).id, 'a-1');
  for (const broken of [
    ...[{ method: 1 }, { method: 'x'.repeat(65) }, { params: {} }, { params: Array(2001).fill(1) }],
    ...[{ id: null }, { id: undefined }, { id: {} }, { id: 'x'.repeat(65) }],
  ]) {
    assert.equal(realtimeRequest.safeParse({ ...request, ...broken }).success, false);
  }
});

test('answers are written in the form of the contract', () => {
  assert.deepEqual(responseMessage(3, ['BTC_USDT', 60], record), {
    id: 3,
    params: ['BTC_USDT', 60],
    result: record,
    error: null,
  });
  assert.deepEqual(responseMessage('a', [], STATUS_SUCCESS).result, { status: 'success' });
});

test('refusals are written in the form of the family, with its codes', () => {
  assert.deepEqual(errorMessage(3, ['X'], REALTIME_ERRORS.invalidArgument), {
    id: 3,
    params: ['X'],
    result: null,
    error: { code: 1, message: 'invalid argument' },
  });
  assert.deepEqual(
    Object.values(REALTIME_ERRORS).map(({ code, message }) => [code, message]),
    [
      [1, 'invalid argument'],
      [2, 'internal error'],
      [3, 'service unavailable'],
      [4, 'method not found'],
      [5, 'service timeout'],
      [6, 'require authentication'],
      // Of WhiteBIT, for a list with an unknown market.
      [9, 'unknown market'],
    ],
  );
});

test('an update of the contract carries neither market nor change', () => {
  assert.deepEqual(updateMessage(record), {
    result: { period: 86_400, ...figures },
    error: null,
    id: null,
  });
});

test('an update of the family carries method, market and record, but no period', () => {
  assert.deepEqual(familyUpdateMessage('BTC_USDT', record), {
    method: 'state.update',
    params: ['BTC_USDT', { ...figures, change: '1.13' }],
    id: null,
  });
});

test('a response is read with its id and result', () => {
  assert.deepEqual(read(responseMessage(7, [], STATUS_SUCCESS)), {
    kind: 'response',
    id: 7,
    result: { status: 'success' },
    error: null,
  });
  const state = read(responseMessage('a-1', ['BTC_USDT', 60], record));
  assert.deepEqual(state, { kind: 'response', id: 'a-1', result: record, error: null });
  const pong = { error: null, result: 'pong', id: 2 };
  assert.deepEqual(read(pong), { kind: 'response', id: 2, result: 'pong', error: null });
});

for (const error of Object.values(REALTIME_ERRORS)) {
  test(`"${error.message}" is read as a response with error ${error.code}`, () => {
    const frame = errorMessage(3, [], error);
    assert.deepEqual(read(frame), { kind: 'response', id: 3, result: null, error });
    assert.deepEqual(read({ ...frame, params: undefined }), read(frame));
  });
}

test('an update of the contract is read without a market: its connection tells it', () => {
  const reading = read(updateMessage(record));
  assert.deepEqual(reading, {
    kind: 'update',
    market: undefined,
    record: { period: 86_400, ...figures },
  });
});

test('an update of the family is read with its market, with and without a period', () => {
  const frame = familyUpdateMessage('BTC_USDT', record);
  assert.deepEqual(read(frame), {
    kind: 'update',
    market: 'BTC_USDT',
    record: { ...figures, change: '1.13', period: undefined },
  });
  const whole = { method: 'state.update', params: ['BTC_USDT', record] };
  assert.deepEqual(read(whole), { kind: 'update', market: 'BTC_USDT', record });
});

test('numbers and decimals in exponent form are read by their value', () => {
  const text = `{"result":${JSON.stringify(record)
    .replace('86400', '8.64E4')
    .replace('73912345.1', '7.39123451E7')
    .replace('1195.2', '0e-8')},"error":null,"id":null}`;
  const reading = readServerFrame(JSON.parse(text));
  assert.ok(reading.kind === 'update');
  assert.equal(reading.record.period, 86_400);
  assert.equal(reading.record.deal, '73912345.1');
  assert.equal(reading.record.volume, '0');
  const answer = readServerFrame(JSON.parse('{"id":1.7E1,"result":1.790138674365E9,"error":null}'));
  assert.ok(answer.kind === 'response');
  assert.deepEqual([answer.id, answer.result], [17, 1790138674.365]);
});

test('an update with a figure that cannot be stored is not recognised', () => {
  for (const broken of [
    ...[{ last: 'NaN' }, { last: '1e999' }, { deal: '-1' }, { volume: 1195.2 }, { low: null }],
    ...[{ period: 0 }, { period: 1.5 }, { high: '9'.repeat(10_240) }],
  ]) {
    const figuresOf = { ...record, ...broken };
    assert.equal(read({ id: null, result: figuresOf, error: null }).kind, 'unrecognised');
    const family = { method: 'state.update', params: ['BTC_USDT', figuresOf], id: null };
    assert.equal(read(family).kind, 'unrecognised');
  }
});

test('a frame that is neither response nor update is not recognised', () => {
  for (const frame of [
    ...[null, 1, 'text', true, [], {}, { id: null }, { id: null, result: null, error: null }],
    ...[{ method: 'state.update' }, { method: 'state.update', params: [], id: null }],
    ...[{ method: 'depth.update', params: ['BTC_USDT', record], id: null }, { id: 3 }],
  ]) {
    assert.deepEqual(readServerFrame(frame), { kind: 'unrecognised' }, JSON.stringify(frame));
  }
});
