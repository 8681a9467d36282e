/** What stands where a secret was. */
const REDACTED = '***';

/** Shapes of secrets that may turn up inside any text: error messages above all. */
const RULES: readonly (readonly [RegExp, string])[] = [
  // user:password@ inside a URL
  [/([a-z][a-z0-9+.-]{1,20}:\/\/[^\s:@/"]{0,200}):[^\s@/"]{1,500}@/gi, `$1:${REDACTED}@`],
  [/\b(bearer|basic)\s+[A-Za-z0-9._~+/=-]{8,}/gi, `$1 ${REDACTED}`],
  // password=…, "apiKey":"…", X-TXC-SIGNATURE: …
  [
    /((?:passw(?:or)?d|secret|token|api_?key|x-txc-[a-z]{1,12}|signature)\\?["']?\s*[=:]\s*\\?["']?)[^\s"'\\,;&}]{1,1000}/gi,
    `$1${REDACTED}`,
  ],
];

/**
 * Builds the function that every log line passes through before it is written: it hides what looks
 * like a secret, and the given secrets wherever they stand.
 */
export function createRedactor(secrets: readonly string[] = []): (line: string) => string {
  const known = secrets
    .filter((secret) => secret.length >= 4)
    .flatMap((secret) => [secret, JSON.stringify(secret).slice(1, -1), encodeURIComponent(secret)]);
  return (line) => {
    let shown = line;
    for (const secret of known) shown = shown.replaceAll(secret, REDACTED);
    for (const [pattern, replacement] of RULES) shown = shown.replace(pattern, replacement);
    return shown;
  };
}
