import type { RequestSigner } from '../../src/client/request-signer.js';
import { type EndpointName, endpoints } from '../../src/contract/endpoints.js';
import { type Context, requireKeys } from './context.js';
import type { Answer } from './exchange-probe.js';

/** What is sent, once it is signed. */
export type SignedParts = Omit<Awaited<ReturnType<RequestSigner['sign']>>, 'release'>;

/** Whatever a case wants in a body; the contract may forbid it. */
export type Body = Readonly<Record<string, unknown>>;

export interface PostOptions {
  /** Breaks what was signed before it is sent. */
  readonly spoil?: (parts: SignedParts) => SignedParts;
  /** Says another path in the body. */
  readonly signedPath?: string;
}

/** Signs a body as it is and sends it; nothing holds it against the contract before. */
export async function post(
  context: Context,
  name: EndpointName,
  params: Body,
  { spoil = (parts) => parts, signedPath = endpoints[name].path }: PostOptions = {},
): Promise<Answer> {
  const { signer } = requireKeys(context);
  const { release, ...signed } = await signer.sign(signedPath, params, context.signal);
  const { path } = endpoints[name];
  try {
    return await context.probe.send({ endpoint: name, method: 'POST', path, ...spoil(signed) });
  } finally {
    await release();
  }
}
