import assert from 'node:assert/strict';
import test from 'node:test';
import {
  csvField,
  keyOfLine,
  LineRewriter,
  spreadsheetField,
  timeOfLine,
} from '../../../../src/archive/lines.js';
import fc from '../../../support/properties.js';

test('lines are rewritten and counted wherever the pieces end', () => {
  const line = fc.stringMatching(/^[a-zé$&,]{0,12}$/);
  const given = fc.record({
    lines: fc.array(line, { minLength: 1, maxLength: 30 }),
    cuts: fc.array(fc.nat(300), { maxLength: 12 }),
    prefix: fc.constantFrom('M,', '"$& é",', "'=x,"),
    isCrLf: fc.boolean(),
    lead: fc.constantFrom('', '{'),
  });
  fc.assert(
    fc.property(given, ({ lines, cuts, prefix, isCrLf, lead }) => {
      const whole = Buffer.from(lines.map((one) => `${lead}${one}\n`).join(''));
      const places = [...new Set([0, ...cuts.filter((cut) => cut < whole.length), whole.length])];
      places.sort((a, b) => a - b);
      const rewriter = new LineRewriter(prefix, { lead, isCrLf });
      const out = places.slice(1).map((to, index) => {
        return Buffer.from(rewriter.push(whole.subarray(places[index], to)));
      });
      const ending = isCrLf ? '\r\n' : '\n';
      const expected = lines.map((one) => `${prefix}${one}${ending}`).join('');
      assert.equal(Buffer.concat(out).toString(), expected);
      assert.equal(rewriter.rows, lines.length);
      const latin = (text = '') => Buffer.from(text).toString('latin1');
      assert.equal(rewriter.first, `${lead}${latin(lines[0])}`);
      assert.equal(rewriter.last, `${lead}${latin(lines.at(-1))}`);
    }),
  );
});

test('a line tells its key and moment', () => {
  const csv = '2026-01-15 12:00:00.25+00,17,x';
  assert.deepEqual(keyOfLine(csv, false, true), { at: '2026-01-15T12:00:00.25Z', id: 17 });
  const json = '{"traded_at":"2026-01-15T12:00:00+00:00","tid":17}';
  assert.deepEqual(keyOfLine(json, true, true), { at: '2026-01-15T12:00:00Z', id: 17 });
  assert.deepEqual(keyOfLine(json, true, false), { at: '2026-01-15T12:00:00Z' });
  assert.equal(timeOfLine(csv), Date.UTC(2026, 0, 15, 12, 0, 0, 250));
});

test('texts from outside are fields, and no formulas in a spreadsheet', () => {
  assert.equal(csvField('a"b,c'), '"a""b,c"');
  assert.equal(csvField('BTC_USDT'), 'BTC_USDT');
  for (const formula of ['=1+1', '+1', '-1', '@SUM(A1)', '\t=1', '\r=1', '\n=1']) {
    assert.match(spreadsheetField(formula), /^"?'/, JSON.stringify(formula));
  }
  assert.equal(spreadsheetField('=HYPERLINK("x","y")'), `"'=HYPERLINK(""x"",""y"")"`);
});
