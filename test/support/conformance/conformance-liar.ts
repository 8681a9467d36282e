import type { TestContext } from 'node:test';
import { IDENTITY_HEADER } from '../../../src/contract/extensions.js';
import { startHttpStub } from '../exchanges/stub-server.js';

export type Row = Record<string, unknown>;
type Bare = Row & Row[];

/** A body that is altered before it is passed on; `rows` is the payload, without its envelope. */
interface Told {
  status: number;
  body: Row;
  rows: Bare;
}

/** Alters an answer; what it returns counts for nothing. */
export type Bend = (told: Told) => unknown;

export const at = (rows: Bare, index: number): Row => rows[index] ?? {};

/** The rows of a field; none where the answer has no such field, as a refusal. */
export function listOf(field: unknown): Row[] {
  return Array.isArray(field) ? (field as Row[]) : [];
}

/**
 * A server that passes on what another one says, and bends it here and there. With `isNamed` false
 * it looks like any exchange, not like a sandbox.
 */
export async function startLiar(
  t: TestContext,
  truth: string,
  { where, bend }: { readonly where: RegExp; readonly bend: Bend },
  isNamed = true,
) {
  let told = 0;
  const stub = await startHttpStub(t, (request, response) => {
    void (async () => {
      const {
        host: _host,
        connection: _link,
        'content-length': _size,
        ...headers
      } = request.headers;
      const answer = await fetch(truth + request.url, {
        method: request.method,
        headers: headers as Record<string, string>,
        ...(request.method === 'POST' ? { body: request.body } : {}),
      });
      const text = await answer.text();
      const type = answer.headers.get('content-type') ?? '';
      const reply: Told = { status: answer.status, body: {}, rows: [] as unknown as Bare };
      let sent = text;
      if (type.startsWith('application/json') && where.test(`${request.method} ${request.url}`)) {
        reply.body = JSON.parse(text) as Row;
        reply.rows = (reply.body.result ?? reply.body) as Bare;
        bend(reply);
        sent = JSON.stringify(reply.body);
        told += 1;
      }
      const date = answer.headers.get('date') ?? '';
      const identity = answer.headers.get(IDENTITY_HEADER) ?? '';
      response.writeHead(reply.status, {
        ...{ 'content-type': type, date },
        ...(isNamed ? { [IDENTITY_HEADER]: identity } : {}),
      });
      response.end(sent);
    })();
  });
  return { url: stub.baseUrl, told: () => told };
}
