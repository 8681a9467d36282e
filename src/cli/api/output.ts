import { safeExcerpt } from '../../client/index.js';
import type { EndpointName, ResultOf } from '../../contract/endpoints.js';
import type { RejectedRow } from '../../contract/shape.js';
import { TapekeepError } from '../../kernel/errors.js';
import { kebabCase } from './options.js';
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

/** Reports on stderr which rows of the answer are not in the result, and why. */
export function printRejected(rejected: readonly RejectedRow[]): void {
  if (rejected.length === 0) return;
  const told = rejected.slice(0, TOLD_ROWS).map((row) => `  ${placeOf(row)}: ${row.reason}`);
  const more = rejected.length > TOLD_ROWS ? [`  and ${rejected.length - TOLD_ROWS} more`] : [];
  const rows = rejected.length === 1 ? 'row does' : 'rows do';
  const lines = [
    `tapekeep: ${rejected.length} ${rows} not fit the contract and are left out:`,
    ...told,
    ...more,
  ];
  process.stderr.write(`${lines.map((line) => line.replace(CONTROL, '·')).join('\n')}\n`);
}

/** The answer has rows, and none of them fits the contract. */
export class UnreadableRowsError extends TapekeepError {
  /** @param secrets texts that must not reach the message, even if the server echoes them */
  constructor(name: EndpointName, rejected: readonly RejectedRow[], secrets: readonly string[]) {
    const byReason = new Map<string, { readonly first: RejectedRow; count: number }>();
    for (const row of rejected) {
      const known = byReason.get(row.reason);
      if (known === undefined) byReason.set(row.reason, { first: row, count: 1 });
      else known.count += 1;
    }
    const lines = [...byReason].slice(0, TOLD_ROWS).flatMap(([reason, { first, count }]) => {
      const sample = safeExcerpt(JSON.stringify(first.payload) ?? '', secrets);
      return [
        `  ${count} ${count === 1 ? 'row' : 'rows'}, the first ${placeOf(first)}: ${reason}`,
        `    it came as ${sample}`,
      ];
    });
    const more = byReason.size - TOLD_ROWS;
    const rest = more > 0 ? [`  and for ${more} other reasons`] : [];
    const text = [
      `${kebabCase(name)}: no row of the answer can be read (${rejected.length} refused):`,
      ...lines.map((line) => line.replace(CONTROL, '·')),
      ...rest,
      'Check that the address is the API of an exchange of this family.',
    ];
    super('rows_unreadable', 'retry', text.join('\n'));
  }
}

function placeOf({ at }: RejectedRow): string {
  return typeof at === 'number' ? `row ${at}` : at;
}
