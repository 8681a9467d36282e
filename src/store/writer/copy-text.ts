/** The text form of COPY: one line a row, tabs between fields, backslash escapes (Postgres manual, COPY). */

const SPECIAL = /[\\\t\n\r]/;
const ESCAPES: Readonly<Record<string, string>> = {
  '\\': '\\\\',
  '\t': '\\t',
  '\n': '\\n',
  '\r': '\\r',
};

export function escapeCopyField(field: string): string {
  if (!SPECIAL.test(field)) return field;
  return field.replace(/[\\\t\n\r]/g, (found) => ESCAPES[found] ?? found);
}

/** One line, with its end. Null becomes `\N`. */
export function copyLine(fields: readonly (string | null)[]): string {
  let line = '';
  for (const [index, field] of fields.entries()) {
    if (index > 0) line += '\t';
    line += field === null ? '\\N' : escapeCopyField(field);
  }
  return `${line}\n`;
}
