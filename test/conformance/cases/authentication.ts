import { type EndpointName, endpointNames, endpoints } from '../../../src/contract/endpoints.js';
import { ERROR_MESSAGES } from '../../../src/contract/error-shapes.js';
import { AUTH_HEADERS, encodePayload, sign } from '../../../src/contract/signing.js';
import { type Case, type Context, requireChanges, requireKeys } from '../context.js';
import type { Answer } from '../exchange-probe.js';
import { judgeRefusal } from '../judge.js';
import { type Findings, Skip } from '../outcome.js';
import { type PostOptions, post, type SignedParts } from '../signed-post.js';
import { PATHS, SIGNED_HEADERS } from '../tables.js';

function judgeUnsigned(name: EndpointName, answer: Answer, findings: Findings): void {
  judgeRefusal(name, answer, findings, { message: ERROR_MESSAGES.authenticationFailure });
}

/** A request for balances that is spoiled in one way must be an authentication failure. */
function refused(id: string, title: string, optionsOf: (context: Context) => PostOptions): Case {
  return {
    id: `auth.${id}`,
    title,
    async run(context, findings) {
      requireKeys(context);
      judgeUnsigned('balances', await post(context, 'balances', {}, optionsOf(context)), findings);
    },
  };
}

const withHeader = (name: string, value: string) => (parts: SignedParts) => {
  return { ...parts, headers: { ...parts.headers, [name]: value } };
};

const withoutHeader = (name: string) => (parts: SignedParts) => {
  const { [name]: _gone, ...headers } = parts.headers;
  return { ...parts, headers };
};

/** Signs another body properly, by the same key or by another one. */
function resigned(
  context: Context,
  change: (fields: Record<string, unknown>) => unknown,
  key = requireKeys(context).credentials,
): PostOptions {
  return {
    spoil({ body, headers }) {
      const changed = change(JSON.parse(body.toString()) as Record<string, unknown>);
      const bytes = Buffer.from(typeof changed === 'string' ? changed : JSON.stringify(changed));
      return {
        body: bytes,
        headers: {
          ...headers,
          [AUTH_HEADERS.apiKey]: key.apiKey,
          [AUTH_HEADERS.payload]: encodePayload(bytes),
          [AUTH_HEADERS.signature]: sign(key.secret, bytes, context.signedContent),
        },
      };
    },
  };
}

/** A proper body whose nonce is replaced. */
function nonceCase(id: string, title: string, nonceOf: (nonce: number) => unknown): Case {
  return refused(`nonce.${id}`, title, (context) =>
    resigned(context, (fields) => ({ ...fields, nonce: nonceOf(Number(fields.nonce)) })),
  );
}

/** @throws Skip without such a key */
function requireInactive(context: Context) {
  requireKeys(context);
  if (context.inactive !== undefined) return context.inactive;
  throw new Skip('no key that is not activated was given ("inactive" in the file of keys)');
}

const FOREIGN = { apiKey: 'nobody-has-this-key', secret: 'nobody-has-this-secret' };

/** Endpoint by endpoint: without the headers nobody gets anything. */
const unsignedCases = endpointNames.map(
  (name): Case => ({
    id: `auth.required.${name}`,
    title: `POST ${PATHS[name]} needs the headers`,
    async run(context, findings) {
      if (name === 'orderNew') requireChanges(context);
      const headers = { 'content-type': 'application/json' };
      const spoil = ({ body }: SignedParts) => ({ body, headers });
      judgeUnsigned(name, await post(context, name, {}, { spoil }), findings);
    },
  }),
);

export const authenticationCases: readonly Case[] = [
  ...unsignedCases,
  ...SIGNED_HEADERS.map((header) =>
    refused(header, `without ${header} nobody is established`, () => {
      return { spoil: withoutHeader(header) };
    }),
  ),
  refused('key.wrong', "a key that signs with another one's secret is refused", () => {
    return { spoil: withHeader(AUTH_HEADERS.apiKey, FOREIGN.apiKey) };
  }),
  refused('key.unknown', 'a key that nobody has is refused, however well it signs', (context) =>
    resigned(context, (fields) => fields, FOREIGN),
  ),
  refused(
    'key.inactive',
    'a key that is not activated is refused, however well it signs',
    (context) => resigned(context, (fields) => fields, requireInactive(context)),
  ),
  refused('signature', 'a wrong signature is refused', () => {
    return { spoil: withHeader(AUTH_HEADERS.signature, '0'.repeat(128)) };
  }),
  refused('payload', 'a payload that is not the body is refused', () => {
    return { spoil: withHeader(AUTH_HEADERS.payload, encodePayload('{}')) };
  }),
  refused('body', 'a body that is not the signed payload is refused', () => {
    return {
      spoil: ({ body, headers }) => ({ body: Buffer.concat([body, Buffer.from(' ')]), headers }),
    };
  }),
  refused('path', 'a body signed for another path is refused', () => {
    return { signedPath: endpoints.orders.path };
  }),
  refused('request.missing', 'a body without request is refused', (context) =>
    resigned(context, ({ request: _request, ...rest }) => rest),
  ),
  refused('json', 'a body that is no JSON object is refused', (context) =>
    resigned(context, () => 'request=1'),
  ),
  nonceCase('missing', 'a body without nonce is refused', () => undefined),
  nonceCase('text', 'a nonce that is no number is refused', () => 'now'),
  nonceCase('short', 'a nonce of 12 characters is refused', (nonce) => Math.floor(nonce / 10)),
  {
    id: 'auth.nonce.long',
    title: 'a nonce of 14 characters is refused',
    async run(context, findings) {
      // An exchange that takes it would refuse every later nonce of this key.
      requireChanges(context);
      const long = resigned(context, (fields) => ({ ...fields, nonce: Number(fields.nonce) * 10 }));
      judgeUnsigned('balances', await post(context, 'balances', {}, long), findings);
    },
  },
  {
    id: 'auth.nonce.used',
    title: 'a nonce passes once',
    run: (context, findings) => judgeSecond(context, findings, 0),
  },
  {
    id: 'auth.nonce.lower',
    title: 'a nonce below the last one is refused',
    run: (context, findings) => judgeSecond(context, findings, -1),
  },
];

/** After a request that passed, one whose nonce is not greater. */
async function judgeSecond(context: Context, findings: Findings, step: number): Promise<void> {
  let used = 0;
  const first = await post(
    context,
    'balances',
    {},
    {
      spoil(parts) {
        used = Number((JSON.parse(parts.body.toString()) as { nonce: unknown }).nonce);
        return parts;
      },
    },
  );
  findings.check(first.status === 200, `${first.target} gave ${first.status} at first`);
  const again = resigned(context, (fields) => ({ ...fields, nonce: used + step }));
  judgeUnsigned('balances', await post(context, 'balances', {}, again), findings);
}
