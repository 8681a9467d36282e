import { isOptional } from '../../../src/contract/documents/json-schema.js';
import { type EndpointName, endpointNames, endpoints } from '../../../src/contract/endpoints.js';
import { readByClient } from '../client-reading.js';
import { type Case, type Context, requireChanges, requireKeys } from '../context.js';
import { judgeRefusal } from '../judge.js';
import { type Findings, Skip } from '../outcome.js';
import { type Body, post } from '../signed-post.js';
import { isBlocked, restingOrder } from './orders.js';
import { goodQuery, judgeSuccess } from './resources.js';

/** Bodies that the contract does not admit, signed as they should be. */

const UNKNOWN_MARKET = 'NOSUCH_MARKET';

async function goodBody(name: EndpointName, context: Context): Promise<Body> {
  if (name === 'orderNew') return restingOrder(context);
  if (name === 'orders') return { market: context.market, offset: 0, limit: 50 };
  return goodQuery(name, context);
}

function require(name: EndpointName, context: Context): void {
  if (name === 'orderNew') requireChanges(context);
  else requireKeys(context);
}

/** A case that spoils one field of a good body. `isNamed`: the answer may name the field. */
function spoiled(
  name: EndpointName,
  field: string,
  kind: string,
  value: unknown,
  isNamed: boolean,
): Case {
  const shown = value === undefined ? `no ${field}` : `${field} ${JSON.stringify(value)}`;
  return {
    id: `${name}.${field}.${kind}`,
    title: `${endpoints[name].path} refuses ${shown}`,
    async run(context, findings) {
      require(name, context);
      const { [field]: _spoiled, ...rest } = await goodBody(name, context);
      const body = value === undefined ? rest : { ...rest, [field]: value };
      const answer = await post(context, name, body);
      // Where no orders are taken at all, what is wrong with one is not looked at.
      if (name === 'orderNew' && !isNamed && isBlocked(answer)) {
        throw new Skip(`${context.market} takes no orders now`);
      }
      judgeRefusal(name, answer, findings, isNamed ? { field } : {});
    },
  };
}

function requiredFields(name: EndpointName): string[] {
  const fields = Object.entries(endpoints[name].params.shape);
  return fields.filter(([, schema]) => !isOptional(schema)).map(([field]) => field);
}

/** Where nothing is given every required field is named. */
const nothingCases = endpointNames
  .filter((name) => requiredFields(name).length > 0)
  .map(
    (name): Case => ({
      id: `${name}.signed.nothing`,
      title: `${endpoints[name].path} names ${requiredFields(name).join(', ')} when nothing is given`,
      async run(context, findings) {
        require(name, context);
        const answer = await post(context, name, {});
        const [first = ''] = requiredFields(name);
        judgeRefusal(name, answer, findings, { field: first });
        const { message } = (answer.json ?? {}) as { message?: unknown };
        const named = typeof message === 'object' && message !== null ? Object.keys(message) : [];
        const isWhole = requiredFields(name).every((field) => named.includes(field));
        // The table's first row allows the plain text, too.
        if (named.length > 0 && !isWhole) findings.differs('errorShapes', `it names ${named}`);
      },
    }),
  );

const newOrderFields = requiredFields('orderNew');
const malformed: Readonly<Record<string, unknown>> = { market: 7, price: [], amount: {}, side: 5 };

const newOrderCases = newOrderFields.flatMap((field): Case[] => [
  spoiled('orderNew', field, 'missing', undefined, true),
  spoiled('orderNew', field, 'malformed', malformed[field], true),
  spoiled('orderNew', field, 'empty', '', true),
]);

/** Where a page's limits are told, and that they hold for it. */
async function judgePage(
  context: Context,
  findings: Findings,
  given: Body,
  due: { readonly offset: number; readonly limit: number },
): Promise<void> {
  requireKeys(context);
  const answer = await post(context, 'orders', { market: context.market, ...given });
  judgeSuccess('orders', answer, findings);
  const { offset, limit, result } = readByClient('orders', answer);
  findings.check(offset === due.offset, `offset is ${offset}, not ${due.offset}`);
  findings.check(limit === due.limit, `limit is ${limit}, not ${due.limit}`);
  findings.check(result.length <= due.limit, `${result.length} orders, ${due.limit} are the most`);
}

const ordersCases: readonly Case[] = [
  spoiled('orders', 'market', 'missing', undefined, true),
  spoiled('orders', 'market', 'malformed', 7, true),
  spoiled('orders', 'market', 'unknown', UNKNOWN_MARKET, false),
  spoiled('orders', 'offset', 'negative', -1, false),
  spoiled('orders', 'offset', 'text', 'ten', false),
  spoiled('orders', 'limit', '0', 0, false),
  spoiled('orders', 'limit', '-1', -1, false),
  spoiled('orders', 'limit', 'ten', 'ten', false),
  {
    id: 'orders.limit.default',
    title: 'orders without offset and limit has 0 and 50',
    run: (context, findings) => judgePage(context, findings, {}, { offset: 0, limit: 50 }),
  },
  {
    id: 'orders.limit.1',
    title: 'orders obeys limit 1',
    run: (context, findings) => judgePage(context, findings, { limit: 1 }, { offset: 0, limit: 1 }),
  },
  {
    id: 'orders.limit.asText',
    title: 'orders takes offset and limit as text, as the table has them',
    run: (context, findings) =>
      judgePage(context, findings, { offset: '2', limit: '20' }, { offset: 2, limit: 20 }),
  },
];

export const postedErrorCases: readonly Case[] = [
  ...nothingCases,
  ...newOrderCases,
  spoiled('orderNew', 'market', 'unknown', UNKNOWN_MARKET, false),
  spoiled('orderNew', 'side', 'unknown', 'both', true),
  ...['price', 'amount'].flatMap((field) => [
    spoiled('orderNew', field, 'text', 'ten', true),
    spoiled('orderNew', field, 'zero', '0', false),
    spoiled('orderNew', field, 'negative', '-1', false),
  ]),
  ...ordersCases,
];
