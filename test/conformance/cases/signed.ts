import type { RequestSigner } from '../../../src/client/request-signer.js';
import { type EndpointName, endpoints } from '../../../src/contract/endpoints.js';
import { ERROR_MESSAGES } from '../../../src/contract/error-shapes.js';
import { AUTH_HEADERS } from '../../../src/contract/signing.js';
import type { Case, Context } from '../context.js';
import type { Answer, Query } from '../exchange-probe.js';
import { judgeRefusal } from '../judge.js';
import { type Findings, Skip } from '../outcome.js';
import { goodQuery, judgeFields, judgeSuccess, publicNames } from './resources.js';

type SignedParts = Omit<Awaited<ReturnType<RequestSigner['sign']>>, 'release'>;

/** Signs and sends; `spoil` may break what was signed before it is sent. */
async function post(
  { probe, signer }: Context,
  name: EndpointName,
  params: Query,
  spoil: (parts: SignedParts) => SignedParts = (parts) => parts,
  signedPath: string = endpoints[name].path,
): Promise<Answer> {
  if (signer === undefined) throw new Skip('no keys were given');
  const { release, ...signed } = await signer.sign(signedPath, params);
  const { path } = endpoints[name];
  try {
    return await probe.send({ endpoint: name, method: 'POST', path, ...spoil(signed) });
  } finally {
    await release();
  }
}

function judgeUnsigned(answer: Answer, findings: Findings): void {
  judgeRefusal('balances', answer, findings, { message: ERROR_MESSAGES.authenticationFailure });
}

async function judgeSigned(name: EndpointName, answer: Answer, findings: Findings) {
  judgeSuccess(name, answer, findings);
  if (answer.status === 200) judgeFields(name, answer, findings);
}

function withoutHeader(name: string) {
  return ({ body, headers }: SignedParts): SignedParts => {
    const { [name]: _gone, ...rest } = headers;
    return { body, headers: rest };
  };
}

export const signedCases: readonly Case[] = [
  ...publicNames.map(
    (name): Case => ({
      id: `${name}.signed`,
      title: `${endpoints[name].path} answers the signed form as the open one`,
      async run(context, findings) {
        if (context.signer === undefined) throw new Skip('no keys were given');
        const query = await goodQuery(name, context);
        await judgeSigned(name, await post(context, name, query), findings);
      },
    }),
  ),
  {
    id: 'balances.signed',
    title: 'account/balances answers with its fields',
    run: async (context, findings) =>
      judgeSigned('balances', await post(context, 'balances', {}), findings),
  },
  {
    id: 'orders.signed',
    title: 'orders answers with its fields',
    async run(context, findings) {
      const answer = await post(context, 'orders', { market: context.market });
      await judgeSigned('orders', answer, findings);
    },
  },
  ...Object.values(AUTH_HEADERS).map(
    (header): Case => ({
      id: `auth.${header}`,
      title: `without ${header} nobody is established`,
      run: async (context, findings) =>
        judgeUnsigned(await post(context, 'balances', {}, withoutHeader(header)), findings),
    }),
  ),
  {
    id: 'auth.signature',
    title: 'a wrong signature is refused',
    async run(context, findings) {
      const answer = await post(context, 'balances', {}, ({ body, headers }) => ({
        body,
        headers: { ...headers, [AUTH_HEADERS.signature]: '0'.repeat(128) },
      }));
      judgeUnsigned(answer, findings);
    },
  },
  {
    id: 'auth.path',
    title: 'a body signed for another path is refused',
    async run(context, findings) {
      const other = endpoints.orders.path;
      judgeUnsigned(await post(context, 'balances', {}, undefined, other), findings);
    },
  },
  {
    id: 'auth.nonce',
    title: 'a nonce passes once',
    async run(context, findings) {
      let used: SignedParts | undefined;
      await post(context, 'balances', {}, (parts) => {
        used = parts;
        return parts;
      });
      judgeUnsigned(await post(context, 'balances', {}, (parts) => used ?? parts), findings);
    },
  },
];
