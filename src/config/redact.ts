/** What stands where a secret was. */
export const REDACTED = '***';

/** Query parameters that carry secrets in the connection strings of databases and exchanges. */
const SECRET_PARAMETER = /pass|secret|token|key|signature/i;

/**
 * A URL that may be shown: the password and secret query parameters are replaced by `***`, the
 * rest is kept. Text that is no URL is hidden whole after its scheme, since nobody can tell which
 * part of it is the secret.
 */
export function redactUrl(text: string): string {
  if (!URL.canParse(text)) {
    const scheme = /^[a-z][a-z0-9+.-]{0,20}:\/\//i.exec(text)?.[0];
    return scheme === undefined ? REDACTED : `${scheme}${REDACTED}`;
  }
  const url = new URL(text);
  const secretNames = [...url.searchParams.keys()].filter((name) => SECRET_PARAMETER.test(name));
  if (url.password === '' && secretNames.length === 0) return text;
  if (url.password !== '') url.password = REDACTED;
  for (const name of secretNames) url.searchParams.set(name, REDACTED);
  return url.toString();
}
