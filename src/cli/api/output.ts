import type { EndpointName, ResultOf } from '../../contract/endpoints.js';
import type { RejectedRow } from '../../contract/shape.js';
import { linesOf } from './rows.js';

/** Refused rows that are told one by one. */
const TOLD_ROWS = 10;
const CONTROL = /[\p{Cc}\p{Cf}]/gu;

const bold = (line: string) => `\u001b[1m${line}\u001b[22m`;

/** Prints a result: exactly as parsed, or as a table. */
export function printResult<N extends EndpointName>(
  name: N,
  data: ResultOf<N>,
  isJson: boolean,
): void {
  const isTerminal = process.stdout.isTTY === true;
  if (isJson) {
    process.stdout.write(`${JSON.stringify(data, null, isTerminal ? 2 : undefined)}\n`);
    return;
  }
  const isPlain = !isTerminal || (process.env.NO_COLOR ?? '') !== '';
  process.stdout.write(`${linesOf(name, data, isPlain ? undefined : bold).join('\n')}\n`);
}

/** Tells on stderr which rows of the answer are not in the result, and why. */
export function printRejected(rejected: readonly RejectedRow[]): void {
  if (rejected.length === 0) return;
  const told = rejected
    .slice(0, TOLD_ROWS)
    .map(({ at, reason }) => `  ${typeof at === 'number' ? `row ${at}` : at}: ${reason}`);
  const more = rejected.length > TOLD_ROWS ? [`  and ${rejected.length - TOLD_ROWS} more`] : [];
  const rows = rejected.length === 1 ? 'row does' : 'rows do';
  const lines = [
    `tapekeep: ${rejected.length} ${rows} not fit the contract and are left out:`,
    ...told,
    ...more,
  ];
  process.stderr.write(`${lines.map((line) => line.replace(CONTROL, '·')).join('\n')}\n`);
}
