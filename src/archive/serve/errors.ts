import { messageOf, TapekeepError } from '../../kernel/errors.js';
import { ColdError, isFullDisk, ParquetError } from '../errors.js';

/** SQLSTATEs that the endpoint answers with. */
export const SQLSTATE = {
  unsupported: '0A000',
  protocol: '08P01',
  transactionOpen: '25001',
  noTransaction: '25P01',
  failedTransaction: '25P02',
  readOnly: '25006',
  wrongPassword: '28P01',
  wrongDatabase: '3D000',
  wrongSavepoint: '3B001',
  noCursor: '34000',
  cursorThere: '42P03',
  outOfRange: '22003',
  badValue: '22023',
  syntax: '42601',
  noColumn: '42703',
  noTable: '42P01',
  tooManyConnections: '53300',
  noMemory: '53200',
  diskFull: '53100',
  limit: '54000',
  cancelled: '57014',
  stopping: '57P01',
  fileMissing: '58P01',
  fileRefused: '58030',
  fileDamaged: 'XX001',
  internal: 'XX000',
} as const;

/** Details of an {@link EndpointError} beside its SQLSTATE and text. */
interface EndpointErrorDetails {
  readonly hint?: string | undefined;
  readonly cause?: unknown;
  /** True if the connection ends with it. */
  readonly isFatal?: boolean;
}

/** Error that the endpoint reports to Postgres, which passes it on to the user. */
export class EndpointError extends TapekeepError {
  readonly sqlstate: string;
  readonly hint: string | undefined;
  readonly isFatal: boolean;

  constructor(sqlstate: string, message: string, details: EndpointErrorDetails = {}) {
    super('usage', message, { cause: details.cause });
    this.sqlstate = sqlstate;
    this.hint = details.hint;
    this.isFatal = details.isFatal ?? false;
  }
}

const LOCAL_HINT =
  'Put OFFSET 0 into a subquery, so that your database evaluates it: SELECT … FROM (SELECT * FROM … WHERE … OFFSET 0) t WHERE … .';

/** Refuses what is outside of the allow-list. @param what names the expression */
export function refused(what: string, cause?: unknown): EndpointError {
  const text = `${what} cannot be evaluated over archived rows`;
  return new EndpointError(SQLSTATE.unsupported, text, { hint: LOCAL_HINT, cause });
}

/** A `numeric` that DuckDB cannot hold, and Postgres could. */
const WIDE =
  /Overflow in .*(?:INT128|HUGEINT|DECIMAL)|has more digits than|Could not convert string .* to DECIMAL/i;

const MEMORY_HINT = 'Ask for a shorter time range: each partition that is read holds some memory.';

const COLD_STATES: Readonly<Record<string, string>> = {
  cold_missing: SQLSTATE.fileMissing,
  cold_damaged: SQLSTATE.fileDamaged,
  cold_refused: SQLSTATE.fileRefused,
};

/** Words of DuckDB's errors, with the SQLSTATE that Postgres has for them. */
const DUCK_STATES: readonly (readonly [RegExp, string])[] = [
  [/out of memory|could not allocate|failed to allocate/i, SQLSTATE.noMemory],
  [/out of range|overflow/i, SQLSTATE.outOfRange],
  [/no such file|cannot open file/i, SQLSTATE.fileMissing],
  [/corrupt|invalid input error: .*parquet|no magic bytes/i, SQLSTATE.fileDamaged],
];

/** Any error as one that Postgres understands. */
export function asEndpointError(error: unknown): EndpointError {
  if (error instanceof EndpointError) return error;
  const message = messageOf(error);
  const full = isFullDisk(error) ? SQLSTATE.diskFull : undefined;
  if (error instanceof ColdError) {
    const sqlstate = full ?? COLD_STATES[error.code] ?? SQLSTATE.fileRefused;
    return new EndpointError(sqlstate, message, { cause: error });
  }
  if (error instanceof ParquetError && WIDE.test(message)) {
    return refused('a number of more than 38 digits', error);
  }
  if (error instanceof ParquetError) {
    const known = DUCK_STATES.find(([words]) => words.test(message))?.[1];
    const hint = known === SQLSTATE.noMemory ? MEMORY_HINT : undefined;
    return new EndpointError(full ?? known ?? SQLSTATE.internal, message, { cause: error, hint });
  }
  return new EndpointError(SQLSTATE.internal, message, { cause: error });
}
