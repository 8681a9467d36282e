import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { startPlainChild } from '../programs/plain-child.js';
import type { CrewOrder, CrewWord } from './crew-child.js';

const CHILD = join(import.meta.dirname, 'crew-child.ts');
/** Lines of its log that an error shows. */
const SHOWN_LINES = 40;

/** One daemon of a crew. */
export class CrewMember {
  readonly #order: (order: 'stop') => void;
  readonly #listeners = new Set<() => void>();
  readonly #lines: string[] = [];
  #fail: (error: Error) => void = () => undefined;
  /** Rejects when it fails, or its process ends; never resolves. */
  readonly failed: Promise<never>;
  #open: (url: string) => void = () => undefined;
  /** The address of its status pages. */
  readonly url: Promise<string>;
  #stopped: () => void = () => undefined;
  readonly #ended: Promise<void>;

  constructor(order: (order: 'stop') => void) {
    this.#order = order;
    this.failed = new Promise<never>((_, reject) => {
      this.#fail = reject;
    });
    this.failed.catch(() => undefined);
    this.url = new Promise((resolve) => {
      this.#open = resolve;
    });
    this.#ended = new Promise((resolve) => {
      this.#stopped = resolve;
    });
  }

  hear(word: CrewWord): void {
    if (word.is === 'open') this.#open(word.url);
    else if (word.is === 'stopped') this.#stopped();
    else if (word.is === 'failed') this.end(word.text);
    else {
      this.#lines.push(word.text);
      if (this.#lines.length > SHOWN_LINES) this.#lines.shift();
      for (const listener of this.#listeners) listener();
    }
  }

  /** There is nothing more to come of it. */
  end(why: string): void {
    this.#fail(new Error(`the daemon ended: ${why}\n${this.#lines.join('')}`));
  }

  /** Waits until `isTrue`, asking again after lines of its log, one question at a time. */
  async until(isTrue: () => Promise<boolean>): Promise<void> {
    let release: () => void = () => undefined;
    const found = new Promise<void>((resolve, reject) => {
      let isAsking = false;
      let isNews = false;
      const ask = async () => {
        isAsking = true;
        do {
          isNews = false;
          if (await isTrue()) resolve();
        } while (isNews);
        isAsking = false;
      };
      const listener = () => {
        isNews = true;
        if (!isAsking) ask().catch(reject);
      };
      this.#listeners.add(listener);
      release = () => this.#listeners.delete(listener);
    });
    try {
      await Promise.race([found, this.failed]);
    } finally {
      release();
    }
  }

  /** Stops it the way an operator does. */
  async stop(): Promise<void> {
    this.#order('stop');
    await Promise.race([this.#ended, this.failed]);
  }
}

/** A process with several daemons. */
export class Crew {
  readonly #child: ChildProcess;
  readonly #ended: Promise<unknown>;
  readonly #members: CrewMember[] = [];

  constructor() {
    this.#child = startPlainChild(CHILD);
    this.#ended = once(this.#child, 'close').then(([code, signal]) => {
      for (const member of this.#members) member.end(`its process ended, ${code ?? signal}`);
    });
    this.#child.on('message', (word: CrewWord) => this.#members[word.id]?.hear(word));
  }

  /** Starts a daemon with these settings. */
  start(env: Readonly<Record<string, string>>): CrewMember {
    const id = this.#members.length;
    const member = new CrewMember((order) => this.#tell({ do: order, id }));
    this.#members.push(member);
    this.#tell({ do: 'start', id, env });
    return member;
  }

  /** Ends all of them in the middle of what they do. */
  kill(): void {
    this.#child.kill('SIGKILL');
  }

  /** Ends the process when its work is done; to be called in the end, whatever happened. */
  async leave(): Promise<void> {
    if (this.#child.connected) this.#tell({ do: 'leave' });
    await this.#ended;
  }

  #tell(order: CrewOrder): void {
    // It may have been killed just now.
    this.#child.send(order, () => undefined);
  }
}
