import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Page } from 'playwright-core';
import { makeTempDir } from '../../support/postgres/postgres-server.js';
import { startBrowser } from '../../support/programs/browser.js';
import { Program } from '../../support/programs/program.js';

/** The console of a real daemon that collects from its sandbox, as a person uses it in a browser. */

const TOKEN = 'a-token-of-some-length';

const PAGES: Readonly<Record<string, string>> = {
  ...{ '/markets': 'Markets', '/calendar': 'Calendar', '/gaps': 'Gaps' },
  ...{ '/gaps?view=incidents': 'Gaps', '/sql': 'SQL', '/partitions': 'Partitions' },
  ...{ '/quarantine': 'Quarantine', '/log': 'Log', '/settings': 'Settings' },
};

async function logIn(page: Page, url: string): Promise<void> {
  await page.goto(`${url}/markets?kind=trades`);
  await page.getByLabel('Token').fill('not the token');
  await page.getByRole('button', { name: 'Log in' }).click();
  await page.getByText('This token is not known.').waitFor();
  await page.getByLabel('Token').fill(TOKEN);
  await page.getByRole('button', { name: 'Log in' }).click();
  await page.waitForURL('**/markets?kind=trades');
}

/** Waits until a page shows its documents, none of which may be refused. */
async function drawn(page: Page): Promise<void> {
  await page.locator('h1').first().waitFor({ state: 'attached' });
  await page.locator('.loading').first().waitFor({ state: 'detached' });
  assert.deepEqual(await page.locator('.notice.bad').allTextContents(), [], page.url());
}

test('each page of a daemon shows what it collects, and changes as it does', async (t) => {
  const browser = await startBrowser(t);
  if (browser === undefined) return;
  const env = {
    ...{ TAPEKEEP_DATA_DIR: await makeTempDir(), TAPEKEEP_HTTP_PORT: '0' },
    TAPEKEEP_HTTP_TOKEN: TOKEN,
  };
  const daemon = new Program(['start', '--log-format', 'json'], { env });
  t.after(async () => {
    daemon.kill('SIGTERM');
    await daemon.exited();
  });
  const url = await daemon.page();
  const page = await browser.newPage();
  const faults: string[] = [];
  page.on('pageerror', (error) => faults.push(`${error.stack}`));
  page.on('console', (message) => {
    // The wrong token above is refused, and told in the console.
    if (message.type() === 'error' && !message.location().url.endsWith('/login')) {
      faults.push(`${message.text()} ${message.location().url}`);
    }
  });

  await logIn(page, url);
  await page.getByRole('link', { name: 'BTC_USDT', exact: true }).waitFor();
  for (const [path, title] of Object.entries(PAGES)) {
    await page.goto(url + path);
    await drawn(page);
    assert.equal(await page.locator('h1').first().textContent(), title);
  }

  await page.goto(url);
  await page.getByText('All is well').or(page.getByText('Working')).first().waitFor();
  await page.locator('.figure-card .value').filter({ hasText: '%' }).waitFor();
  await drawn(page);

  await page.goto(`${url}/market/BTC_USDT`);
  await drawn(page);
  await page.locator('.candles canvas').waitFor();
  await page.locator('.book .bid').first().waitFor();
  const newest = page.locator('.trades tbody tr td:first-child').first();
  const before = await newest.textContent();
  // No reload: the next trade comes by the stream of events.
  await newest.filter({ hasNotText: before ?? '' }).waitFor();

  await page.goto(`${url}/calendar`);
  await drawn(page);
  await page.locator('canvas').focus();
  await page.keyboard.press('ArrowRight');
  await page.keyboard.press('Enter');
  await page.getByRole('complementary').getByText('Covered', { exact: true }).waitFor();
  await drawn(page);

  const query = 'select market, count(*) as trades from trades group by market';
  await page.goto(`${url}/sql?q=${encodeURIComponent(query)}`);
  await page.locator('.cm-content').click();
  await page.keyboard.press('Control+Enter');
  await page.getByRole('region', { name: 'Result' }).getByText('BTC_USDT').waitFor();
  await drawn(page);

  await page.goto(url);
  await page.getByRole('button', { name: 'Log out' }).click();
  await page.waitForURL('**/login');
  assert.deepEqual(faults, []);
});
