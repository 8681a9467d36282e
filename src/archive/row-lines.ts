import { multiplyDecimals } from '../kernel/decimal.js';
import { SECOND_US } from '../kernel/durations.js';
import { rowPlaces } from '../model/kinds.js';
import { type Column, type SeriesTable, seriesOf } from '../model/series.js';
import type { RowForm } from '../store/index.js';
import type { ArchiveRow } from './row-blocks.js';

/**
 * Writes rows as lines of text. The forms are those in which the database writes them, and `copy`: the
 * id of the market, then all columns as COPY takes them back.
 *
 * @param variantS interval or period of the rows; null where each row has it behind its other columns
 */
export function lineWriter(
  table: SeriesTable,
  form: RowForm | 'copy',
  variantS: number | null,
): (row: ArchiveRow) => string {
  const { columns, variant } = seriesOf(table);
  const places = rowPlaces(table);
  const behind = Math.max(...places.values()) + 1;
  const [price = 0, amount = 0] = ['price', 'amount'].map((name) => places.get(name) ?? 0);
  const lists = columns.filter(({ type }) => type.form === 'decimals');
  const write = form === 'json' ? jsonValue : form === 'copy' ? copyField : csvValue;
  const fields = columns.map((column) => {
    const { name, type, lean } = column;
    const place = places.get(name) ?? behind;
    const timestamp = timestampWriter(form === 'json');
    const list = lists.indexOf(column);
    const lead = form === 'json' ? `"${name}":` : '';
    return (row: ArchiveRow): string => {
      if (name === variant) return lead + (variantS ?? row.number(place));
      if (row.isNull(place)) {
        if (lean === undefined || form === 'lean') return lead + write(column, null);
        const factors = [price, amount].map((at) => row.decimal(row.text(at)));
        return lead + write(column, multiplyDecimals(factors[0] ?? '', factors[1] ?? ''));
      }
      if (type.form === 'timestamp') return lead + timestamp(row.us(place));
      if (type.form === 'integer') return lead + row.number(place);
      if (type.form === 'text') return lead + write(column, row.text(place));
      if (type.form === 'decimal') return lead + write(column, row.decimal(row.text(place)));
      const text = row.text(place).split('|')[list] ?? '';
      const values = text === '' ? [] : text.split(' ').map((one) => row.decimal(one));
      return lead + write(column, values);
    };
  });
  return (row) => {
    let line = form === 'copy' ? `${row.number(0)},` : '';
    for (const [at, field] of fields.entries()) line += at === 0 ? field(row) : `,${field(row)}`;
    return form === 'json' ? `{${line}}\n` : `${line}\n`;
  };
}

/** Text, decimals and lists as they are written; null for no value. */
type FieldValue = string | readonly string[] | null;

function csvValue(_: Column, value: FieldValue): string {
  if (value === null || typeof value === 'string') return value ?? '';
  // The database puts quotes around what holds a comma, and around nothing else.
  return value.length > 1 ? `"[${value.join(',')}]"` : `[${value.join(',')}]`;
}

function jsonValue(_: Column, value: FieldValue): string {
  return JSON.stringify(value);
}

function copyField({ type }: Column, value: FieldValue): string {
  if (value === null) return '';
  if (typeof value !== 'string') return `"{${value.join(',')}}"`;
  return type.form === 'text' ? `"${value.replaceAll('"', '""')}"` : value;
}

/** `2026-01-31 12:00:00.5+00`, of UNIX microseconds. Neighbours are mostly of one second. */
function timestampWriter(isJson: boolean): (us: number) => string {
  let [second, text] = [Number.NaN, ''];
  return (us) => {
    const at = Math.floor(us / SECOND_US);
    if (at !== second) {
      second = at;
      text = new Date(at * 1000).toISOString().slice(0, 19);
      if (!isJson) text = text.replace('T', ' ');
    }
    let rest = us - at * SECOND_US;
    // Later than 2255 only milliseconds are kept, and a number is no more exact than that.
    if (us > Number.MAX_SAFE_INTEGER) rest = Math.round(rest / 1000) * 1000;
    const digits = rest === 0 ? '' : `.${String(rest).padStart(6, '0').replace(/0+$/, '')}`;
    return isJson ? `"${text}${digits}+00:00"` : `${text}${digits}+00`;
  };
}
