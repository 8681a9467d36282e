import type { Backend } from './backend.js';

/** Text that is kept, in characters; a page of 1000 trades has some 120,000. */
const MAX_KEPT_LENGTH = 8 * 1024 * 1024;

interface KeptPage {
  readonly version: string;
  readonly text: string;
}

/**
 * The newest texts of trade pages. Writing a page of 1000 trades takes longer than all else that a
 * reply needs, and most clients ask for the same pages; as long as a backend says that a market's
 * trades are the same, so is the page. Backends that say nothing are asked every time.
 */
export class TradePages {
  readonly #backend: Backend;
  /** In order of last use, by question. */
  readonly #pages = new Map<string, KeptPage>();
  #length = 0;

  constructor(backend: Backend) {
    this.#backend = backend;
  }

  /**
   * The page kept for a question, or a new one.
   *
   * @param question everything beside the market's trades that the text depends on
   */
  async text(market: string, question: string, write: () => Promise<string>): Promise<string> {
    const version = this.#backend.tradesVersion?.(market);
    if (version === undefined) return write();
    const kept = this.#pages.get(question);
    if (kept !== undefined) this.#drop(question, kept);
    const text = kept?.version === version ? kept.text : await write();
    // A trade may have come while the page was written: then nobody can say which it shows.
    if (this.#backend.tradesVersion?.(market) === version) this.#keep(question, { version, text });
    return text;
  }

  #keep(question: string, page: KeptPage): void {
    const before = this.#pages.get(question);
    if (before !== undefined) this.#drop(question, before);
    this.#pages.set(question, page);
    this.#length += page.text.length;
    for (const [oldest, old] of this.#pages) {
      if (this.#length <= MAX_KEPT_LENGTH) return;
      this.#drop(oldest, old);
    }
  }

  #drop(question: string, page: KeptPage): void {
    this.#pages.delete(question);
    this.#length -= page.text.length;
  }
}
