import assert from 'node:assert/strict';
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { request } from 'undici';

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

/** Messages of the child process: its address first, then its processor time when asked. */
export interface BenchServerReport {
  readonly url: string;
  readonly cpuMs: number;
}

/** A server in a process of its own; see bench-server-child.ts. */
export class BenchServer {
  readonly url: string;
  readonly #child: ChildProcess;

  private constructor(url: string, child: ChildProcess) {
    this.url = url;
    this.#child = child;
  }

  static async start(order: BenchServerOrder): Promise<BenchServer> {
    const child = fork(join(import.meta.dirname, 'bench-server-child.ts'));
    child.send(order);
    const [{ url }] = (await once(child, 'message')) as [BenchServerReport];
    return new BenchServer(url, child);
  }

  /** Processor time that the process has used, milliseconds. */
  async cpuMs(): Promise<number> {
    this.#child.send({});
    const [{ cpuMs }] = (await once(this.#child, 'message')) as [BenchServerReport];
    return cpuMs;
  }

  async stop(): Promise<void> {
    this.#child.kill();
    await once(this.#child, 'exit');
  }
}

/** Names of headers that a server writes by itself. */
const CONNECTION_HEADERS = new Set(['connection', 'keep-alive', 'content-length']);

/** Reads what `server` answers at `target`, for a bare server to repeat. */
export async function recordPage(server: BenchServer, target: string): Promise<BenchPage> {
  const reply = await request(server.url + target);
  assert.equal(reply.statusCode, 200);
  const headers = Object.entries(reply.headers).flatMap(([name, value]) =>
    CONNECTION_HEADERS.has(name) ? [] : [[name, String(value)]],
  );
  const [path = ''] = target.split('?');
  const shown = Object.fromEntries(headers) as Record<string, string>;
  return { path, headers: shown, body: await reply.body.text() };
}
