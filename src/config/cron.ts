/** The fields of a schedule in order, with the values that each may hold. */
const FIELDS = [
  { name: 'second', min: 0, max: 59, names: [] },
  { name: 'minute', min: 0, max: 59, names: [] },
  { name: 'hour', min: 0, max: 23, names: [] },
  { name: 'day of month', min: 1, max: 31, names: [] },
  {
    name: 'month',
    min: 1,
    max: 12,
    names: ['jan', 'feb', 'mar', 'apr', 'may', 'jun', 'jul', 'aug', 'sep', 'oct', 'nov', 'dec'],
  },
  {
    name: 'day of week',
    min: 0,
    max: 7,
    names: ['sun', 'mon', 'tue', 'wed', 'thu', 'fri', 'sat'],
  },
] as const;

type Field = (typeof FIELDS)[number];

/** How a schedule is written, for messages. */
export const CRON_FORM =
  'a cron expression of six fields (second minute hour day month weekday) or five (from minute on)';

function fieldValue(text: string, field: Field): number | undefined {
  const named = (field.names as readonly string[]).indexOf(text.toLowerCase());
  if (named >= 0) return named + field.min;
  if (!/^\d{1,2}$/.test(text)) return undefined;
  const value = Number(text);
  return value >= field.min && value <= field.max ? value : undefined;
}

/** One member of a field's comma list: `*`, `5`, `1-5`, each with an optional step such as `/10`. */
function isItem(text: string, field: Field): boolean {
  const [base = '', step, ...rest] = text.split('/');
  if (rest.length > 0) return false;
  if (step !== undefined && !(/^\d{1,2}$/.test(step) && Number(step) >= 1)) return false;
  if (base === '*') return true;
  const [fromText = '', toText, ...more] = base.split('-');
  if (more.length > 0) return false;
  const from = fieldValue(fromText, field);
  if (toText === undefined) return from !== undefined && step === undefined;
  const to = fieldValue(toText, field);
  return from !== undefined && to !== undefined && from <= to;
}

/**
 * Says what is wrong with a schedule, or nothing when it is sound. Collectors hand the text to the
 * scheduler, which checks it again; this check exists so that a mistake is found with its key.
 */
export function cronFault(text: string): string | undefined {
  const parts = text.trim().split(/\s+/);
  if (parts.length !== 5 && parts.length !== 6) return `${parts.length} fields`;
  const fields: readonly Field[] = parts.length === 6 ? FIELDS : FIELDS.slice(1);
  const wrong = fields.findIndex(
    (field, index) => !(parts[index] ?? '').split(',').every((item) => isItem(item, field)),
  );
  if (wrong < 0) return undefined;
  return `${JSON.stringify(parts[wrong])} is no ${fields[wrong]?.name}`;
}
