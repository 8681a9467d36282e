import type pg from 'pg';

/** A column of a statement's answer, as the server describes it. */
export interface DescribedColumn {
  readonly name: string;
  /** OID of its type. */
  readonly type: number;
}

/** What the driver calls while the server answers; its types know the first one only. */
interface Handlers extends pg.Submittable {
  callback: (error: Error | null) => void;
  handleRowDescription(message: { readonly fields: readonly pg.FieldDef[] }): void;
  handleReadyForQuery(): void;
  handleError(error: Error): void;
}

/** Messages of the protocol that the driver's types leave out. */
interface Wire {
  parse(message: { readonly name: string; readonly text: string }): void;
  describe(message: { readonly type: 'S'; readonly name: string }): void;
  sync(): void;
}

/**
 * Asks the server what the answer to a statement will look like, without running it. A text of several
 * statements is refused by the protocol itself.
 *
 * @throws what the server or the driver says
 */
export function describe(client: pg.PoolClient, text: string): Promise<DescribedColumn[]> {
  return new Promise((resolve, reject) => {
    let columns: DescribedColumn[] = [];
    const handlers: Handlers = {
      // The driver puts its own in front of this one, which ends its deadline.
      callback: (error) => {
        if (error === null) resolve(columns);
        else reject(error);
      },
      submit(connection) {
        const wire = connection as unknown as Wire;
        wire.parse({ name: '', text });
        wire.describe({ type: 'S', name: '' });
        wire.sync();
      },
      handleRowDescription({ fields }) {
        columns = fields.map(({ name, dataTypeID }) => ({ name, type: dataTypeID }));
      },
      handleReadyForQuery() {
        this.callback(null);
      },
      handleError(error) {
        this.callback(error);
      },
    };
    client.query(handlers);
  });
}
