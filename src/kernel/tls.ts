/** Words for TLS in the address of a Postgres server that its driver understands. */
export const SSL_MODES = ['disable', 'no-verify', 'prefer', 'require', 'verify-ca', 'verify-full'];

/**
 * An address of Postgres that URLs can hold: it may name its host as a parameter alone, which is the folder of a
 * socket as a rule (`postgres://user@/db?host=/run/postgresql`). The parameter counts wherever there is one.
 */
export function withUrlHost(address: string): string {
  if (URL.canParse(address)) return address;
  return address.replace(
    /^(postgres(?:ql)?:\/\/[^/?#@]*@)(?=(?::\d+)?(?:\/[^?]*)?\?(?:.*&)?host=[^&])/,
    '$1localhost',
  );
}

/** Why the other side of a TLS connection was not believed, in words that say what to do. */
const REASONS: ReadonlyArray<readonly [RegExp, string]> = [
  [/^CERT_HAS_EXPIRED$/, 'its certificate has expired; renew it there'],
  [/^CERT_NOT_YET_VALID$/, 'its certificate is not valid yet: look at the clock of this machine'],
  [
    /^(ERR_TLS_CERT_ALTNAME_INVALID|HOSTNAME_MISMATCH)$/,
    'its certificate is for another host name: use the name that the certificate has',
  ],
  [
    /^(DEPTH_ZERO_SELF_SIGNED_CERT|SELF_SIGNED_CERT_IN_CHAIN|UNABLE_TO_.*CERT.*|UNABLE_TO_VERIFY_LEAF_SIGNATURE)$/,
    'its certificate is of no authority that this machine knows: name the file of its authority by NODE_EXTRA_CA_CERTS',
  ],
  [/^(CERT_|INVALID_CA|INVALID_PURPOSE|PATH_LENGTH_EXCEEDED)/, 'its certificate cannot be trusted'],
  [/^(ERR_SSL_|EPROTO$)/, 'it does not speak TLS as this side does'],
];

/** Undefined where the failure has nothing to do with TLS. The error's own code is at the end. */
export function tlsRefusal(error: unknown): string | undefined {
  const { code } = (error ?? {}) as { readonly code?: unknown };
  if (typeof code !== 'string') return undefined;
  const found = REASONS.find(([pattern]) => pattern.test(code));
  return found === undefined ? undefined : `${found[1]} (${code})`;
}
