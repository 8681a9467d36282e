import { createHmac } from 'node:crypto';
import { type EndpointName, endpoints, type ParamsOf } from '../../../src/contract/endpoints.js';
import type { Asked } from '../client-probe.js';
import { type Case, type Context, requireKeys } from '../context.js';
import type { Query } from '../exchange-probe.js';
import type { Findings } from '../outcome.js';
import { PATHS } from '../tables.js';
import { goodQuery, judgeFields, judgeSuccess, publicNames } from './resources.js';

/** What the client must send (contract, Authentication; field notes, Signing), worked out anew. */
function judgeSigning(
  name: EndpointName,
  { request }: Asked<EndpointName>,
  params: Query,
  context: Context,
  findings: Findings,
): void {
  const { method, path, headers, body } = request;
  const check = (isRight: boolean, text: string) => findings.check(isRight, text, 'client');
  const { credentials } = requireKeys(context);
  check(method === 'POST' && path === PATHS[name], `${method} ${path} was sent`);
  const type = headers['content-type'];
  check(type === 'application/json', `the content type is ${type}`);
  check(headers['x-txc-apikey'] === credentials.apiKey, 'X-TXC-APIKEY is not the key');
  const payload = body.toString('base64');
  check(headers['x-txc-payload'] === payload, 'X-TXC-PAYLOAD is not the body in base64');
  const signed = context.signedContent === 'payload' ? payload : body;
  const signature = createHmac('sha512', credentials.secret).update(signed).digest('hex');
  check(headers['x-txc-signature'] === signature, 'X-TXC-SIGNATURE is not that of what is signed');
  const { request: told, nonce, ...rest } = JSON.parse(body.toString()) as Record<string, unknown>;
  check(told === PATHS[name], `request is ${JSON.stringify(told)}`);
  check(/^\d{13}$/.test(JSON.stringify(nonce)), `nonce is ${JSON.stringify(nonce)}`);
  for (const [field, value] of Object.entries(params)) {
    check(rest[field] === value, `${field} is ${JSON.stringify(rest[field])}, not ${value}`);
  }
}

/** The typed client asks the signed form; request, answer and reading are judged. */
export async function judgeSigned<N extends EndpointName>(
  name: N,
  params: Query,
  context: Context,
  findings: Findings,
): Promise<Asked<N>> {
  requireKeys(context);
  const asked = await context.client.ask(name, params as ParamsOf<N>, 'post', context.signal);
  judgeSigning(name, asked as unknown as Asked<EndpointName>, params, context, findings);
  judgeSuccess(name, asked.answer, findings);
  judgeFields(name, asked.answer, findings);
  return asked;
}

export const signedCases: readonly Case[] = [
  ...publicNames.map(
    (name): Case => ({
      id: `${name}.signed`,
      title: `${endpoints[name].path} answers the signed form as the open one`,
      async run(context, findings) {
        requireKeys(context);
        await judgeSigned(name, await goodQuery(name, context), context, findings);
      },
    }),
  ),
  {
    id: 'balances.signed',
    title: 'account/balances answers with its fields',
    run: async (context, findings) => {
      await judgeSigned('balances', {}, context, findings);
    },
  },
  {
    id: 'orders.signed',
    title: 'orders answers with its fields',
    async run(context, findings) {
      const { market } = context;
      await judgeSigned('orders', { market, offset: 0, limit: 50 }, context, findings);
    },
  },
];
