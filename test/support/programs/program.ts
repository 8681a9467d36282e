import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout } from 'node:timers/promises';

const MAIN = join(import.meta.dirname, '../../../dist/cli/main.js');

export interface ProgramOptions {
  readonly env?: Readonly<Record<string, string>>;
  readonly cwd?: string;
}

type Stream = 'stdout' | 'stderr';

/** What is waited for longer than this never comes; the failure then shows what the program did. */
const LINE_LIMIT_MS = 6 * 60_000;

/**
 * The built program as a process of its own. Tests wait for its lines and its end, never for time.
 */
export class Program {
  readonly #child: ChildProcess;
  readonly #ended: Promise<{ code: number | null; signal: NodeJS.Signals | null }>;
  readonly #listeners = new Set<(line: string, stream: Stream) => void>();
  readonly lines: Record<Stream, string[]> = { stdout: [], stderr: [] };

  constructor(args: readonly string[], options: ProgramOptions = {}) {
    this.#child = spawn(process.execPath, [MAIN, ...args], {
      stdio: ['ignore', 'pipe', 'pipe'],
      env: { PATH: process.env.PATH, ...options.env },
      ...(options.cwd === undefined ? {} : { cwd: options.cwd }),
    });
    this.#read('stdout');
    this.#read('stderr');
    // `close` comes after the last line, `exit` may not.
    this.#ended = once(this.#child, 'close').then(([code, signal]) => ({ code, signal }));
  }

  get pid(): number {
    return this.#child.pid ?? 0;
  }

  /** Everything that was printed so far. */
  text(stream: Stream): string {
    return this.lines[stream].join('\n');
  }

  /** Calls `listener` with every further line; returns a function that ends it. */
  onLine(listener: (line: string, stream: Stream) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /**
   * Resolves with the first line, of those printed and those to come, that `matches`. Fails with
   * all output when the program ends before, or minutes pass.
   */
  async line(matches: (line: string) => boolean | Promise<boolean>): Promise<string> {
    let release: () => void = () => undefined;
    // What still waits to be looked at then would ask on, and keep the file from its end.
    let isOver = false;
    const limit = AbortSignal.timeout(LINE_LIMIT_MS);
    const found = new Promise<string>((resolve, reject) => {
      let checks = Promise.resolve();
      const check = (line: string) => {
        checks = checks.then(async () => {
          if (!isOver && (await matches(line))) resolve(line);
        });
        checks.catch(reject);
      };
      release = this.onLine(check);
      for (const line of [...this.lines.stdout, ...this.lines.stderr]) check(line);
      limit.addEventListener('abort', () => {
        reject(new Error(`not within ${LINE_LIMIT_MS / 60_000} minutes:\n${this.dump()}`));
      });
      void this.#ended.then(async (end) => {
        await checks.catch(() => undefined);
        reject(new Error(`ended (${JSON.stringify(end)}) before the line came:\n${this.dump()}`));
      });
    });
    try {
      return await found;
    } finally {
      isOver = true;
      release();
    }
  }

  /** Waits until `isTrue`, asking again after lines that the program prints, once for all that came. */
  async until(isTrue: () => Promise<boolean>): Promise<void> {
    let news = 0;
    let asked = 0;
    const release = this.onLine(() => {
      news += 1;
    });
    try {
      if (await isTrue()) return;
      await this.line(async () => {
        if (asked === news) return false;
        asked = news;
        return await isTrue();
      });
    } finally {
      release();
    }
  }

  /**
   * The address of a daemon's page, without a slash at its end, from the greeting: log lines hold
   * other addresses, the exchange's among them.
   */
  async page(): Promise<string> {
    const line = await this.line((text) => text.startsWith('  status '));
    return /http:\/\/\S+(?=\/$)/.exec(line)?.[0] ?? assert.fail(line);
  }

  kill(signal: NodeJS.Signals): void {
    this.#child.kill(signal);
  }

  /** Stops reading, as `head` does when it has seen enough: what is written there fails from now on. */
  closeOutput(stream: Stream): void {
    this.#child[stream]?.destroy();
  }

  /** Reads no further for now, as a pager does that shows its first page; or reads on. */
  holdOutput(stream: Stream, isHeld: boolean): void {
    if (isHeld) this.#child[stream]?.pause();
    else this.#child[stream]?.resume();
  }

  /** Resolves when the process has ended and its output is read; fails when minutes pass. */
  async ended(): Promise<{ code: number | null; signal: NodeJS.Signals | null }> {
    const limit = new AbortController();
    const late = setTimeout(LINE_LIMIT_MS, undefined, limit).then(() => {
      throw new Error(`not ended within ${LINE_LIMIT_MS / 60_000} minutes:\n${this.dump()}`);
    });
    late.catch(() => undefined);
    try {
      return await Promise.race([this.#ended, late]);
    } finally {
      limit.abort();
    }
  }

  /** Resolves when the process has ended, although its output may not be read to its end. */
  async exited(): Promise<{ code: number | null; signal: NodeJS.Signals | null }> {
    const { exitCode, signalCode } = this.#child;
    if (exitCode === null && signalCode === null) await once(this.#child, 'exit');
    return { code: this.#child.exitCode, signal: this.#child.signalCode };
  }

  /** For `after` hooks: ends the process whatever its state. */
  async dispose(): Promise<void> {
    if (this.#child.exitCode === null && this.#child.signalCode === null) this.kill('SIGKILL');
    for (const stream of ['stdout', 'stderr'] as const) this.holdOutput(stream, false);
    await this.#ended;
  }

  dump(): string {
    return [...this.lines.stdout, ...this.lines.stderr.slice(-40)].join('\n');
  }

  #read(stream: Stream): void {
    const input = this.#child[stream];
    if (input === null) return;
    createInterface({ input }).on('line', (line) => {
      this.lines[stream].push(line);
      for (const listener of [...this.#listeners]) listener(line, stream);
    });
  }
}

/** What the sandbox prints with --json when it is ready. */
export interface SandboxReady {
  readonly url: string;
  readonly realtimeUrl: string;
  readonly markets: readonly string[];
  readonly identity: string;
}

/** Starts the built sandbox and waits for its ready line. */
export async function startSandbox(
  args: readonly string[],
): Promise<{ program: Program; ready: SandboxReady }> {
  const program = new Program(['sandbox', '--json', ...args]);
  const line = await program.line((text) => text.startsWith('{"ready"'));
  return { program, ready: JSON.parse(line) as SandboxReady };
}
