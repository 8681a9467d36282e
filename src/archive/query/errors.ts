import { TapekeepError } from '../../kernel/errors.js';

/** A statement that can not be answered as it is; the message says what to change. */
export class StatementRefusedError extends TapekeepError {
  constructor(message: string, cause?: unknown) {
    super('usage', 'fatal', message, { cause });
  }
}

/** A statement names a table that there is not. */
export class NoSuchTableError extends StatementRefusedError {
  readonly table: string;

  constructor(table: string, message: string) {
    super(message);
    this.table = table;
  }
}

/** The machine has not enough memory or disk for a statement. */
export class QueryResourcesError extends TapekeepError {
  constructor(what: string, cause: unknown) {
    super(
      'query_resources',
      'retry',
      `${what}: ask for fewer markets or a shorter time (in the statement, or with --market, --from and --to), or let TMPDIR name a folder on a larger disk`,
      { cause },
    );
  }
}
