import assert from 'node:assert/strict';
import { test } from 'node:test';
import { withAdvice } from '../../../src/cli/api/advice.js';
import { REPLAY_TIME } from '../../../src/contract/extensions.js';
import { messageOf, TapekeepError } from '../../../src/kernel/errors.js';

test('what may pass is to be tried again; a replay whose time stands has to be moved', () => {
  const failed = (said: string) =>
    messageOf(withAdvice(new TapekeepError('server_error', `depth (HTTP 503): ${said}`)));
  assert.match(failed('too busy'), /^depth \(HTTP 503\): too busy\nIt may pass: try again/);
  const none = failed(`no depth of BTC_USDT is recorded up to noon, ${REPLAY_TIME}`);
  assert.match(none, /\nAsk again when the time of the replay has gone on: GET \/replay\/clock/);
  assert.doesNotMatch(none, /It may pass/);
});
