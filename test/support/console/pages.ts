import { existsSync, readFileSync } from 'node:fs';
import { extname, join } from 'node:path';
import type { Browser, BrowserContextOptions, Page, Route } from 'playwright-core';
import { ENDPOINTS, type EndpointName } from '../../../src/console/api/endpoints.js';
import { PAGE_POLICY } from '../../../src/console/site.js';
import { repositoryPath } from '../repository/repository.js';
import { type ConsoleWorld, consoleAnswers, NOW_MS } from './documents.js';

/** Pages of the console in a browser, with a daemon that is written down. */

const ASSETS = join(repositoryPath, 'dist/console/assets');
const TYPES: Readonly<Record<string, string>> = {
  ...{
    '.js': 'text/javascript',
    '.css': 'text/css',
    '.svg': 'image/svg+xml',
    '.html': 'text/html',
  },
};
/** Headings of the pages, by address. */
export const PAGES: Readonly<Record<string, string>> = {
  ...{ '/': 'Overview', '/markets': 'Markets', '/calendar': 'Calendar', '/gaps': 'Gaps' },
  ...{ '/gaps?view=incidents': 'Gaps', '/gaps?gap=g0': 'Gaps' },
  ...{ '/calendar?market=BTC_USDT&day=2026-11-20': 'Calendar', '/market/BTC_USDT': 'BTC_USDT' },
  ...{ '/sql': 'SQL', '/partitions': 'Partitions', '/quarantine': 'Quarantine' },
  ...{ '/log': 'Log', '/settings': 'Settings', '/login': 'tapekeep' },
};

const ORIGIN = 'http://console.test';

export interface OpenedPage {
  readonly page: Page;
  /** Errors, warnings and refused content that the browser reported. */
  readonly faults: string[];
  /** Requests to the API, as method and path. */
  readonly asked: string[];
  goto(path: string): Promise<void>;
}

interface Options extends BrowserContextOptions {
  readonly world: ConsoleWorld;
  /** Each question is answered by 503, as while the database is away. */
  readonly isAway?: () => boolean;
}

/** The endpoint of a path, and the parts of its path. */
function endpointOf(method: string, path: string): [EndpointName, Record<string, string>] | null {
  for (const [name, endpoint] of Object.entries(ENDPOINTS)) {
    const pattern = endpoint.path.replace(/\{(\w+)\}/g, '(?<$1>[^/]+)');
    const found = new RegExp(`^/api/v1${pattern}$`).exec(path);
    if (found === null || endpoint.method !== method.toLowerCase()) continue;
    return [name as EndpointName, found.groups ?? {}];
  }
  return null;
}

async function answer(route: Route, { world, isAway }: Options): Promise<void> {
  const url = new URL(route.request().url());
  const json = (status: number, body: unknown) =>
    route.fulfill({ status, contentType: 'application/json', body: JSON.stringify(body) });
  if (url.pathname === '/api/v1/events') {
    if (isAway?.() === true) return route.abort('connectionrefused');
    return route.fulfill({ contentType: 'text/event-stream', body: 'retry: 60000\n\n' });
  }
  const found = endpointOf(route.request().method(), url.pathname);
  if (found === null) return file(route, url.pathname);
  if (isAway?.() === true)
    return json(503, { error: 'The database does not answer. See the log.' });
  const [name, parts] = found;
  for (const [key, value] of Object.entries(parts)) {
    url.searchParams.set(key, decodeURIComponent(value));
  }
  const body = consoleAnswers(world)[name](url.searchParams);
  if (!('isCut' in body) || route.request().headers().accept !== 'text/csv') return json(200, body);
  const headers = { 'x-is-cut': String(body.isCut) };
  return route.fulfill({ contentType: 'text/csv', headers, body: 'hour\n' });
}

async function file(route: Route, path: string): Promise<void> {
  const name = path.startsWith('/assets/') ? path.slice('/assets/'.length) : '';
  const page = path === '/login' ? 'login.html' : 'index.html';
  const place = join(ASSETS, name === '' ? page : name);
  if (!existsSync(place)) return route.fulfill({ status: 404, body: '' });
  await route.fulfill({
    contentType: TYPES[extname(place)] ?? 'text/plain',
    headers: { 'content-security-policy': PAGE_POLICY },
    body: readFileSync(place),
  });
}

export async function openConsole(browser: Browser, options: Options): Promise<OpenedPage> {
  const { world: _world, isAway: _isAway, ...context } = options;
  const page = await (await browser.newContext(context)).newPage();
  await page.clock.setFixedTime(NOW_MS);
  const faults: string[] = [];
  const asked: string[] = [];
  page.on('console', (message) => {
    if (['error', 'warning'].includes(message.type())) faults.push(message.text());
  });
  page.on('pageerror', (error) => faults.push(`${error.stack}`));
  page.on('request', (request) => {
    const { pathname } = new URL(request.url());
    if (pathname.startsWith('/api/')) asked.push(`${request.method()} ${pathname}`);
  });
  await page.route('**/*', (route) => answer(route, options));
  return {
    ...{ page, faults, asked },
    async goto(path) {
      await page.goto(`${ORIGIN}${path}`);
      await page.locator('h1').first().waitFor({ state: 'attached' });
      await page.locator('.loading').first().waitFor({ state: 'detached' });
    },
  };
}
