import { usualForms } from '../../../src/archive/cold/decimals.js';
import { decimalSql } from '../../../src/archive/parquet/columns.js';
import type { ColumnForm } from '../../../src/model/columns.js';
import { columnsOf } from '../../../src/model/kinds.js';
import { SERIES_TABLES, viewOf } from '../../../src/model/series.js';
import { head, plain, table } from './reference.js';

/** The page about columns of cold files. A test compares what it says with files. */

/** Physical and logical type of a column in Parquet. */
export const PARQUET_TYPES = {
  timestamp: 'INT64, TIMESTAMP(MICROS, UTC)',
  integer: 'INT64',
  text: 'BYTE_ARRAY, STRING',
} as const;

/** Types of decimals in files, the usual one first; a market whose digits are unknown may have any of them. */
export const DECIMAL_TYPES = (usualForms('trade', null, null).get('price') ?? []).map(decimalSql);
const WIDEST = DECIMAL_TYPES.at(-1) ?? '';

const SHOWN: Readonly<Record<ColumnForm, string>> = {
  timestamp: 'timestamp',
  integer: 'integer',
  text: 'text',
  decimal: 'decimal',
  decimals: 'list of decimals',
};

export function coldSchemaPage(): string {
  const kinds = SERIES_TABLES.map((name) => {
    const rows = columnsOf(name).map((one) => [
      `\`${one.name}\``,
      SHOWN[one.type],
      one.isNullable ? 'yes' : '',
      plain(one.about),
    ]);
    return `## ${viewOf(name)}\n\n${table(['column', 'type', 'null', 'meaning'], rows)}`;
  });
  const types = [
    ['timestamp', PARQUET_TYPES.timestamp, 'TIMESTAMP', 'TIMESTAMPTZ', `DateTime64(6, 'UTC')`],
    ['integer', PARQUET_TYPES.integer, 'BIGINT', 'BIGINT', 'Int64'],
    ['text', PARQUET_TYPES.text, 'STRING', 'VARCHAR', 'String'],
    ['decimal', 'below', WIDEST, WIDEST, 'Decimal(76, 38)'],
    [SHOWN.decimals, 'LIST of them', `ARRAY of ${WIDEST}`, `${WIDEST}[]`, 'Array of them'],
  ];
  const [small, ...wider] = DECIMAL_TYPES.map((one) => `\`${one}\``);
  return [
    `${head('Columns of cold files', 'the series in `src/model/series.ts`')}Files of a kind have these columns, in this order. In Parquet all of them
are optional. \`kind\`, \`market\` and \`date\` are in the path alone ([layout](../guides/cold-files.md#layout)): two texts, in which \`%2F\` and
the like are special characters, and a day in UTC.

An engine that is given these types, in place of those of the first file, reads all files:\n`,
    table(['type', 'Parquet', 'Spark', 'DuckDB', 'ClickHouse'], types),
    `## Decimals

A decimal column of a file is ${small}, ${wider.join(', ')}, or text. Every value is exact. Files of a market that are archived later
have the same type or a wider one. Markets differ. Volumes are \`${WIDEST}\` or text.

- \`${WIDEST}\` holds all decimals of the other types. No digit is lost by a cast to it.
- A column is text where a number has more than 18 digits after the point, or more than 20 before it. No decimal type of 38 digits
  holds all of these. A cast of text rounds, so compare the digits before.
- Types up to 18 digits are INT64, the others FIXED_LEN_BYTE_ARRAY. Engines compute with the first several times faster. Where all
  files that you read have a narrower type, give that one.\n`,
    ...kinds,
  ].join('\n');
}
