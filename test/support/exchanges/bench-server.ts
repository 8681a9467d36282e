import assert from 'node:assert/strict';
import { join } from 'node:path';
import { request } from 'undici';
import { ServerProcess } from '../programs/server-process.js';

/** A reply as a bare server repeats it. */
export interface BenchPage {
  /** Path without the query. */
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

/** Options of the child process. */
export type BenchServerOrder =
  | { readonly kind: 'ours' }
  | { readonly kind: 'bare'; readonly pages: readonly BenchPage[] };

export interface BenchServerReport {
  readonly url: string;
  /** Processor time that the process has used, milliseconds. */
  readonly cpuMs: number;
}

export type BenchServer = ServerProcess<BenchServerReport>;

/** A server in a process of its own; see bench-server-child.ts. */
export function startBenchServer(order: BenchServerOrder): Promise<BenchServer> {
  return ServerProcess.start(join(import.meta.dirname, 'bench-server-child.ts'), order);
}

/** Names of headers that a server writes by itself. */
const CONNECTION_HEADERS = new Set(['connection', 'keep-alive', 'content-length']);

/** Reads what `server` answers at `target`, for a bare server to repeat. */
export async function recordPage(server: BenchServer, target: string): Promise<BenchPage> {
  const reply = await request(server.report.url + target);
  assert.equal(reply.statusCode, 200);
  const headers = Object.entries(reply.headers).flatMap(([name, value]) =>
    CONNECTION_HEADERS.has(name) ? [] : [[name, String(value)]],
  );
  const [path = ''] = target.split('?');
  const shown = Object.fromEntries(headers) as Record<string, string>;
  return { path, headers: shown, body: await reply.body.text() };
}
