import pg from 'pg';

/** Types that the driver would make into something less exact than their text. */
const KEPT_AS_TEXT: ReadonlySet<number> = new Set([
  1082, // date
  1114, // timestamp
  1184, // timestamptz: a JavaScript date has no microseconds
  1186, // interval
]);
const NUMERIC_ARRAY = 1231;
const TEXT_ARRAY = 1009;

/** How the values of an answer are read: no number on the way through a float. */
export const ANSWER_TYPES: pg.CustomTypesConfig = {
  getTypeParser: ((oid: number, format?: 'text' | 'binary') => {
    if (KEPT_AS_TEXT.has(oid)) return moment;
    return pg.types.getTypeParser(oid === NUMERIC_ARRAY ? TEXT_ARRAY : oid, format);
  }) as pg.CustomTypesConfig['getTypeParser'],
};

/** `2026-01-31T12:00:00.000Z`, with microseconds where there are any. */
function moment(text: string): string {
  const [, day, time, fraction = ''] =
    /^(\d{4,}-\d\d-\d\d) (\d\d:\d\d:\d\d)(?:\.(\d+))?(?:\+00)?$/.exec(text) ?? [];
  if (day === undefined) return text;
  const zone = text.endsWith('+00') ? 'Z' : '';
  return `${day}T${time}.${fraction.padEnd(fraction.length > 3 ? 6 : 3, '0')}${zone}`;
}
