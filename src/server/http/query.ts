/** What a query string says. */
export type QueryReading =
  | { readonly kind: 'read'; readonly values: Readonly<Record<string, string>> }
  /** It cannot be decoded: the request as such is broken. */
  | { readonly kind: 'undecodable' }
  /** A parameter is given twice, or there are far too many: which value is meant is unknown. */
  | { readonly kind: 'ambiguous' };

/** More parameters than any endpoint knows, by far; bounds the work. */
const MAX_PARAMETERS = 64;

const ENCODED = /[%+]/;

function decode(text: string): string {
  return ENCODED.test(text) ? decodeURIComponent(text.replaceAll('+', ' ')) : text;
}

/** Reads the query of a request target such as `/path?market=BTC_USDT&limit=5`; never throws. */
export function readQuery(target: string): QueryReading {
  const mark = target.indexOf('?');
  const values: Record<string, string> = Object.create(null) as Record<string, string>;
  if (mark < 0) return { kind: 'read', values };
  const pairs = target.slice(mark + 1).split('&', MAX_PARAMETERS + 1);
  if (pairs.length > MAX_PARAMETERS) return { kind: 'ambiguous' };
  let isAmbiguous = false;
  try {
    for (const pair of pairs) {
      if (pair === '') continue;
      const equals = pair.indexOf('=');
      const name = decode(equals < 0 ? pair : pair.slice(0, equals));
      if (name in values) isAmbiguous = true;
      values[name] = equals < 0 ? '' : decode(pair.slice(equals + 1));
    }
  } catch {
    return { kind: 'undecodable' };
  }
  return isAmbiguous ? { kind: 'ambiguous' } : { kind: 'read', values };
}

/** The path of a request target, without its query. */
export function pathOf(target: string): string {
  const mark = target.indexOf('?');
  return mark < 0 ? target : target.slice(0, mark);
}
