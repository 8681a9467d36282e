import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { extname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { TapekeepError } from '../kernel/errors.js';
import { addressOf, refuse } from './guards.js';
import { type Logins, SESSION_COOKIE, SESSION_MS } from './logins.js';

/** Files of the pages, read once into memory: what is not among them is not served. */

/** Folder in which `npm run build` puts the files of the pages. */
export const ASSETS_FOLDER = fileURLToPath(new URL('../../dist/console/assets/', import.meta.url));

const FILES_MAX = 200;
const BYTES_MAX = 16_000_000;
const LOGIN_BODY_MAX = 8192;

const TYPES: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.json': 'application/json; charset=utf-8',
  '.map': 'application/json; charset=utf-8',
  '.svg': 'image/svg+xml',
  '.png': 'image/png',
  '.ico': 'image/x-icon',
  '.txt': 'text/plain; charset=utf-8',
};

/** Allows our own files and nothing else: no other origin, no inline script or style, no frame. */
export const PAGE_POLICY = [
  "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:",
  "frame-ancestors 'none'; form-action 'self'; base-uri 'none'",
].join('; ');

/** Addresses of pages: all are one document, whose script shows what the address names. */
const PAGES = [
  ...['/', '/markets', '/calendar', '/gaps', '/market/:market', '/sql', '/partitions'],
  ...['/quarantine', '/log', '/settings'],
];

interface Asset {
  readonly type: string;
  readonly etag: string;
  readonly bytes: Buffer;
  /** Its bytes in gzip, where the build made them. */
  readonly gzip: Buffer | undefined;
}

export type Assets = ReadonlyMap<string, Asset>;

/**
 * Reads the files of the pages. A folder that is missing has none.
 *
 * @throws TapekeepError for a folder with more than the pages can have
 */
export function readAssets(folder: string): Assets {
  let names: string[];
  try {
    names = readdirSync(folder, { recursive: true, encoding: 'utf8' });
  } catch {
    return new Map();
  }
  const found = new Map<string, Asset>();
  let size = 0;
  for (const name of names.filter((one) => extname(one) in TYPES)) {
    const bytes = readFileSync(join(folder, name));
    const gzip = names.includes(`${name}.gz`)
      ? readFileSync(join(folder, `${name}.gz`))
      : undefined;
    size += bytes.length + (gzip?.length ?? 0);
    if (found.size >= FILES_MAX || size > BYTES_MAX) {
      const text = `${folder} has more than ${FILES_MAX} files or ${BYTES_MAX} bytes: build it again (npm run build)`;
      throw new TapekeepError('status_server', text);
    }
    const etag = `"${createHash('sha256').update(bytes).digest('base64url').slice(0, 22)}"`;
    const type = TYPES[extname(name)] ?? 'application/octet-stream';
    found.set(name.replaceAll('\\', '/'), { type, etag, bytes, gzip });
  }
  return found;
}

function sendAsset(request: FastifyRequest, reply: FastifyReply, asset: Asset | undefined) {
  if (asset === undefined) return refuse(reply, 404, 'no such file');
  void reply
    .headers({ etag: asset.etag, 'cache-control': 'no-cache', vary: 'accept-encoding' })
    .type(asset.type);
  if (asset.type.startsWith('text/html')) void reply.header('content-security-policy', PAGE_POLICY);
  if (request.headers['if-none-match'] === asset.etag) return reply.code(304).send();
  const accepted = request.headers['accept-encoding'] ?? '';
  if (asset.gzip === undefined || !/\bgzip\b/.test(String(accepted)))
    return reply.send(asset.bytes);
  return reply.header('content-encoding', 'gzip').send(asset.gzip);
}

const NOT_BUILT = 'the pages of the console are not built: run npm run build';

/** Adds the pages and their files. */
export function addPages(app: FastifyInstance, assets: Assets): void {
  for (const url of PAGES) {
    app.get(url, { config: { name: 'page', isPage: true } }, async (request, reply) => {
      const page = assets.get('index.html');
      return page === undefined ? refuse(reply, 503, NOT_BUILT) : sendAsset(request, reply, page);
    });
  }
  app.get<{ Params: { '*': string } }>(
    '/assets/*',
    { config: { name: 'asset', needs: 'open' } },
    async (request, reply) => sendAsset(request, reply, assets.get(request.params['*'])),
  );
}

/** Path of this server to go on with after a login, and no other address. */
function nextPath(next: string | null): string {
  if (next === null || !/^\/(?![/\\])[\x21-\x7e]{0,1000}$/.test(next)) return '/';
  return /^\/(?:login|logout)\b/.test(next) ? '/' : next;
}

/** Fields of a form, or of a JSON document. */
function fieldsOf(body: unknown): URLSearchParams {
  if (body instanceof URLSearchParams) return body;
  const fields = typeof body === 'object' && body !== null ? Object.entries(body) : [];
  return new URLSearchParams(
    fields.filter((one): one is [string, string] => typeof one[1] === 'string'),
  );
}

/**
 * Adds the form for people. It sends `token`, and `next` with the path to go on with. A wrong token leads back to
 * `#wrong`, too many of them to `#limited`; a script that sends JSON gets 204, 401 or 429.
 */
export function addLogin(app: FastifyInstance, logins: Logins, assets: Assets): void {
  const config = { name: 'login', needs: 'open' } as const;
  app.get('/login', { config }, async (request, reply) => {
    const page = assets.get('login.html');
    return page === undefined ? refuse(reply, 503, NOT_BUILT) : sendAsset(request, reply, page);
  });
  app.post('/login', { config, bodyLimit: LOGIN_BODY_MAX }, async (request, reply) => {
    const isForm = request.body instanceof URLSearchParams;
    const fields = fieldsOf(request.body);
    const next = fields.get('next');
    const address = addressOf(request);
    const opened = logins.isNeeded ? logins.open(fields.get('token') ?? '', address) : undefined;
    if (opened === 'nobody' || opened === 'limited') {
      const place = opened === 'nobody' ? 'wrong' : 'limited';
      if (opened === 'limited')
        void reply.header('retry-after', String(logins.retryAfterS(address)));
      if (isForm) {
        return reply.redirect(`/login?next=${encodeURIComponent(nextPath(next))}#${place}`, 303);
      }
      return opened === 'nobody'
        ? refuse(reply, 401, 'the token is wrong')
        : refuse(reply, 429, 'too many wrong tokens; wait and try again');
    }
    if (opened !== undefined) void reply.header('set-cookie', cookieOf(request, opened.id));
    return isForm ? reply.redirect(nextPath(next), 303) : reply.code(204).send();
  });
  app.post('/logout', { config, bodyLimit: LOGIN_BODY_MAX }, async (request, reply) => {
    logins.close(request.headers);
    void reply.header('set-cookie', cookieOf(request, undefined));
    const isForm = request.body instanceof URLSearchParams;
    return isForm ? reply.redirect('/login', 303) : reply.code(204).send();
  });
}

/** Cookie with the id of a session; without one it ends the cookie. */
function cookieOf({ protocol, headers }: FastifyRequest, id: string | undefined): string {
  const isTls = protocol === 'https' || headers['x-forwarded-proto'] === 'https';
  const maxAgeS = id === undefined ? 0 : SESSION_MS / 1000;
  const parts = [`${SESSION_COOKIE}=${id ?? ''}`, 'Path=/', `Max-Age=${maxAgeS}`, 'HttpOnly'];
  return [...parts, 'SameSite=Strict', ...(isTls ? ['Secure'] : [])].join('; ');
}
