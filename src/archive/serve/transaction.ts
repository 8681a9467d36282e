import type { TransactionStmt } from 'libpg-query';
import { EndpointError, refused, SQLSTATE } from './errors.js';

/** Effect of a statement about transactions. */
interface Applied {
  readonly tag: string;
  /** Cursors that were declared with so many savepoints or more are closed; infinite for none. */
  readonly closesFrom: number;
}

const NONE = Number.POSITIVE_INFINITY;

/**
 * The transaction of a connection. Files do not change, so that it only decides which cursors live.
 *
 * States: *idle* (`I`) → *open* (`T`) → *failed* (`E`) → *idle*.
 */
export class Transaction {
  #status: 'I' | 'T' | 'E' = 'I';
  #savepoints: string[] = [];

  /** As it is reported to the client. */
  get status(): 'I' | 'T' | 'E' {
    return this.#status;
  }

  /** Open savepoints. */
  get depth(): number {
    return this.#savepoints.length;
  }

  /** A statement failed. */
  fail(): void {
    if (this.#status === 'T') this.#status = 'E';
  }

  /** @throws EndpointError 25P02 after an error */
  assertUsable(): void {
    if (this.#status !== 'E') return;
    const text = 'current transaction is aborted, commands ignored until end of transaction block';
    throw new EndpointError(SQLSTATE.failedTransaction, text);
  }

  /** @throws EndpointError for what no foreign table needs */
  apply({ kind, savepoint_name: name = '' }: TransactionStmt): Applied {
    switch (kind) {
      case 'TRANS_STMT_BEGIN':
      case 'TRANS_STMT_START':
        this.assertUsable();
        if (this.#status === 'I') this.#status = 'T';
        return {
          tag: kind === 'TRANS_STMT_BEGIN' ? 'BEGIN' : 'START TRANSACTION',
          closesFrom: NONE,
        };
      case 'TRANS_STMT_COMMIT':
      case 'TRANS_STMT_ROLLBACK': {
        const isDone = kind === 'TRANS_STMT_COMMIT' && this.#status !== 'E';
        this.#status = 'I';
        this.#savepoints = [];
        return { tag: isDone ? 'COMMIT' : 'ROLLBACK', closesFrom: 0 };
      }
      case 'TRANS_STMT_SAVEPOINT':
        this.assertUsable();
        this.#assertOpen('SAVEPOINT');
        this.#savepoints.push(name);
        return { tag: 'SAVEPOINT', closesFrom: NONE };
      case 'TRANS_STMT_RELEASE':
        this.assertUsable();
        this.#savepoints.length = this.#place(name, 'RELEASE SAVEPOINT');
        return { tag: 'RELEASE', closesFrom: NONE };
      case 'TRANS_STMT_ROLLBACK_TO':
        this.#savepoints.length = this.#place(name, 'ROLLBACK TO SAVEPOINT') + 1;
        this.#status = 'T';
        return { tag: 'ROLLBACK', closesFrom: this.#savepoints.length };
      default:
        throw refused(`${kind ?? 'this'} of transactions`);
    }
  }

  #place(name: string, what: string): number {
    this.#assertOpen(what);
    const place = this.#savepoints.lastIndexOf(name);
    if (place >= 0) return place;
    throw new EndpointError(SQLSTATE.wrongSavepoint, `savepoint "${name}" does not exist`);
  }

  #assertOpen(what: string): void {
    if (this.#status !== 'I') return;
    const text = `${what} can only be used in transaction blocks`;
    throw new EndpointError(SQLSTATE.noTransaction, text);
  }
}
