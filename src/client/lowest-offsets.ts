import type { EndpointName } from '../contract/endpoints.js';
import { FieldErrorsError } from './errors.js';
import type { Reply } from './exchange-client.js';
import type { RequestParams } from './request-params.js';

/** The field that says from where on an endpoint's page of trades is to be. */
const OFFSET_FIELDS: Readonly<Partial<Record<EndpointName, string>>> = {
  history: 'lastId',
  historyResult: 'since',
};

/** The offset that stands for the newest page where 0 is refused: no trade's id is below it. */
const LOWEST = 1;

/**
 * Asks with an offset of 1 where an exchange refuses 0 by name, and remembers it. Where the offset is
 * an id that is the same page. Where it counts trades, the newest one is not on it: what was sent is
 * reported with the answer.
 */
export class LowestOffsets {
  readonly #refused = new Set<EndpointName>();

  /**
   * @param ask sends one request; `isRepeat` when the parameters were refused before
   * @throws what `ask` throws
   */
  async ask<T>(
    name: EndpointName,
    params: RequestParams,
    ask: (params: RequestParams, isRepeat: boolean) => Promise<Omit<Reply<T>, 'isRaised'>>,
  ): Promise<Reply<T>> {
    const field = OFFSET_FIELDS[name];
    const isNewest = field !== undefined && params[field] === 0;
    if (!isNewest) return { ...(await ask(params, false)), isRaised: false };
    const raised = { ...params, [field]: LOWEST };
    if (this.#refused.has(name)) {
      return { ...(await ask(raised, false)), isRaised: true };
    }
    try {
      return { ...(await ask(params, false)), isRaised: false };
    } catch (error) {
      const isRefused = error instanceof FieldErrorsError && Object.hasOwn(error.fields, field);
      if (!isRefused) throw error;
      const reply = await ask(raised, true);
      this.#refused.add(name);
      return { ...reply, isRaised: true };
    }
  }
}
