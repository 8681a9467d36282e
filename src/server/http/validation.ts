import { type EndpointName, endpoints, type FilledParamsOf } from '../../contract/endpoints.js';
import { type FieldErrors, requiredFieldText } from '../../contract/error-shapes.js';
import { PAGE_LIMIT } from '../../contract/limits.js';
import type { ServerVariants } from '../../contract/variants.js';
import type { Backend } from '../backend.js';
import {
  FAMILY_DEPTH_UNAVAILABLE,
  FAMILY_UNKNOWN_MARKET,
  familyLimitTooLarge,
  familyOffsetTooSmall,
  fieldErrors,
  INVALID_INPUT,
  ReplyError,
} from './replies.js';

/** Candles that one kline request may span; bounds the work of one request. */
const KLINE_SPAN_MAX = 10_000;

/** Parameters as they came: texts of a query, or the values of a JSON body. */
export type RawParams = Readonly<Record<string, unknown>>;

/** The fields of each endpoint that have no default. */
const requiredFields = new Map(
  Object.entries(endpoints).map(([name, { params }]) => {
    const fields = Object.entries(params.shape);
    const required = fields.filter(([, schema]) => !schema.safeParse(undefined).success);
    return [name, new Set(required.map(([field]) => field))] as const;
  }),
);

interface Issue {
  readonly code?: string | undefined;
  readonly path: readonly PropertyKey[];
}

/** Returns true if a required field is missing or of the wrong kind, not merely out of its bounds. */
function isMissingOrMalformed(issue: Issue, value: unknown): boolean {
  if (value === undefined || value === null || value === '') return true;
  if (issue.code === 'invalid_type') return true;
  // An enumeration reports any misfit as an invalid value; only a text can be a wrong member.
  return issue.code === 'invalid_value' && typeof value !== 'string';
}

function refusalOf(
  name: EndpointName,
  issues: readonly Issue[],
  raw: RawParams,
  variants: ServerVariants,
): ReplyError {
  const required = requiredFields.get(name) ?? new Set<string>();
  const texts: FieldErrors = {};
  for (const issue of issues) {
    const field = String(issue.path[0] ?? '');
    if (required.has(field) && isMissingOrMalformed(issue, raw[field])) {
      texts[field] = [requiredFieldText(field)];
    }
  }
  if (Object.keys(texts).length > 0) return new ReplyError(fieldErrors(texts));
  const isLimitTooLarge = issues.some(
    ({ code, path }) => code === 'too_big' && path[0] === 'limit',
  );
  if (variants.errorShapes === 'family' && isLimitTooLarge) {
    return new ReplyError(familyLimitTooLarge(PAGE_LIMIT.max));
  }
  return new ReplyError(INVALID_INPUT);
}

function checkMarket(
  name: EndpointName,
  market: string,
  backend: Backend,
  variants: ServerVariants,
): void {
  if (backend.hasMarket(market)) return;
  if (variants.errorShapes === 'contract') throw new ReplyError(INVALID_INPUT);
  const isUnnamed = name === 'depth' && variants.errorShapes === 'family';
  throw new ReplyError(isUnnamed ? FAMILY_DEPTH_UNAVAILABLE : FAMILY_UNKNOWN_MARKET);
}

/** If 0 is no offset: only what was sent counts, not what a default fills in. */
function checkOffset(filled: object, raw: RawParams, { sinceMin }: ServerVariants): void {
  for (const [field, value] of Object.entries(filled)) {
    const isOffset = (field === 'since' || field === 'lastId') && raw[field] !== undefined;
    if (isOffset && Number(value) < sinceMin) {
      throw new ReplyError(familyOffsetTooSmall(field, sinceMin));
    }
  }
}

function checkKlineSpan({ start, end, interval }: FilledParamsOf<'kline'>): void {
  const candles = Math.floor(end / interval) - Math.floor(start / interval) + 1;
  if (end < start || candles > KLINE_SPAN_MAX) throw new ReplyError(INVALID_INPUT);
}

/**
 * Checks the parameters of one endpoint and fills in their defaults (contract, Errors and Limits).
 *
 * Required fields that are missing or malformed are named one by one; everything else that is wrong
 * (a value out of bounds, an unknown market, an end before its start, a malformed optional field)
 * is `invalid input`.
 *
 * @throws ReplyError with the body to send.
 */
export function validateParams<N extends EndpointName>(
  name: N,
  raw: RawParams,
  backend: Backend,
  variants: ServerVariants,
): FilledParamsOf<N> {
  const parsed = endpoints[name].params.safeParse(raw);
  if (!parsed.success) throw refusalOf(name, parsed.error.issues, raw, variants);
  const filled = parsed.data as FilledParamsOf<N>;
  if ('market' in filled) checkMarket(name, filled.market, backend, variants);
  checkOffset(filled, raw, variants);
  if (name === 'kline') checkKlineSpan(filled as FilledParamsOf<'kline'>);
  return filled;
}
