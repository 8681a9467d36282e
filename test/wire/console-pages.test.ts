import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type ConsoleWorld, HOSTILE } from '../support/console/documents.js';
import { openConsole, PAGES } from '../support/console/pages.js';
import { startBrowser } from '../support/programs/browser.js';

test('each link of each page leads to a page', async (t) => {
  const browser = await startBrowser(t);
  if (browser === undefined) return;
  const opened = await openConsole(browser, { world: { markets: 4, isIll: true } });
  const found = new Set<string>();
  for (const path of Object.keys(PAGES)) {
    await opened.goto(path);
    const hrefs = await opened.page.evaluate<string[]>(
      '[...document.querySelectorAll("a[href]")].map((one) => one.href)',
    );
    for (const href of hrefs) found.add(href.split('#')[0] ?? '');
  }
  assert.ok([...found].some((href) => href.includes(encodeURIComponent(HOSTILE))));
  // One of each path: their queries differ only in what they select.
  const paths = new Map([...found].map((href) => [new URL(href).pathname, href]));
  assert.ok(paths.size > 10);
  for (const href of paths.values()) {
    const { pathname, search } = new URL(href);
    await opened.goto(pathname + search);
    assert.notEqual(await opened.page.locator('h1').first().textContent(), 'No such page', href);
  }
  assert.deepEqual(opened.faults, []);
});

test('a filling is previewed, started and watched until it is done', async (t) => {
  const browser = await startBrowser(t);
  if (browser === undefined) return;
  const { page, asked, goto } = await openConsole(browser, { world: { markets: 4, isIll: true } });
  await goto('/gaps?state=open');
  await page.getByRole('button', { name: 'Fill these gaps…' }).click();
  await page.getByText('12 gaps, about 40 requests, 20 s').waitFor();
  await page.getByText('3 gaps are unfillable.').waitFor();
  await page.getByRole('button', { name: 'Fill 12 gaps' }).click();
  await page.getByText('Done: 12 gaps').waitFor();
  assert.equal(asked.filter((one) => one === 'POST /api/v1/fill').length, 2);
  assert.ok(asked.includes('GET /api/v1/fill'));
});

test('a filling says what waits and how many gaps it follows', async (t) => {
  const browser = await startBrowser(t);
  if (browser === undefined) return;
  const world: ConsoleWorld = { markets: 4, isIll: true, isOverfull: true };
  const { page, goto } = await openConsole(browser, { world });
  await goto('/gaps?state=open');
  await page.getByRole('button', { name: 'Fill these gaps…' }).click();
  await page.getByRole('button', { name: 'Fill 2,000 gaps' }).click();
  await page.locator('b.busy').getByText('Waiting: 100 of 2,000 gaps').waitFor();
  await page.locator('.busy').getByText('10 min waiting for the next try').waitFor();
  await page.getByText('Following the 100 longest of 2,000 gaps.').waitFor();
  assert.equal(await page.getByText(/Done:/).count(), 0);
});

test('the overview counts all stalled streams, in the words and level of the state', async (t) => {
  const browser = await startBrowser(t);
  if (browser === undefined) return;
  const { page, goto } = await openConsole(browser, { world: { markets: 4, isIll: true } });
  await goto('/');
  await page.getByText(/^812 streams stalled\. ETH_USDT trades for 30 min 40 s/).waitFor();
  assert.equal(await page.locator('.notes .pill.busy').getByText('stalled').count(), 1);
  assert.equal(await page.getByText('Needs attention', { exact: true }).count(), 2);
  for (const name of ['Newest trade', 'Requests']) {
    const figure = page.locator('.figure-card').filter({ has: page.getByText(name) });
    assert.match((await figure.getAttribute('class')) ?? '', /^figure-card idle$/);
  }
});

test('a CSV file that lacks rows is saved with a warning', async (t) => {
  const browser = await startBrowser(t);
  if (browser === undefined) return;
  const { page, goto } = await openConsole(browser, { world: { markets: 4, isOverfull: true } });
  await goto('/sql');
  await page.locator('.cm-content').waitFor();
  await page.getByRole('button', { name: 'Run', exact: true }).click();
  await page.getByText('24 rows').waitFor();
  const saving = page.waitForEvent('download');
  await page.getByRole('button', { name: 'Download CSV' }).click();
  await saving;
  await page.getByRole('alert').getByText('The file is cut at 100,000 rows.').waitFor();
});

test('a viewer sees nothing that a viewer may not do', async (t) => {
  const browser = await startBrowser(t);
  if (browser === undefined) return;
  const world: ConsoleWorld = { markets: 4, isIll: true, role: 'viewer' };
  const { page, goto } = await openConsole(browser, { world });
  await goto('/gaps?gap=g0');
  await page.getByText('Requests failed or were refused.').first().waitFor();
  assert.equal(await page.getByRole('button', { name: /Fill|Add note/ }).count(), 0);
  for (const name of ['Log', 'Settings', 'Quarantine']) {
    assert.equal(await page.getByRole('link', { name, exact: true }).count(), 0);
  }
});

test('what is chosen is in the address, and the keyboard is enough', async (t) => {
  const browser = await startBrowser(t);
  if (browser === undefined) return;
  const { page, goto } = await openConsole(browser, { world: { markets: 500, isIll: true } });
  await goto('/markets');
  await page.keyboard.press('/');
  // A letter that is typed while the address changes stays.
  await page.evaluate(`
    const replace = history.replaceState.bind(history);
    history.replaceState = (...to) => {
      history.replaceState = replace;
      replace(...to);
      const input = document.querySelector('input[type=search]');
      input.value += 'c';
      input.dispatchEvent(new Event('input', { bubbles: true }));
    };`);
  await page.keyboard.type('bt');
  await page.waitForURL('**/markets?search=btc');
  await page.getByText('4 streams').waitFor();
  await page.getByLabel('Kind').selectOption('depth');
  await page.waitForURL('**/markets?search=btc&kind=depth');
  await page.goBack();
  await page.getByText('4 streams').waitFor();
  await goto('/calendar');
  await page.locator('canvas').focus();
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('ArrowLeft');
  await page.getByText(/^ETH_USDT, 2026-11-28/).waitFor();
  await page.keyboard.press('Enter');
  await page.waitForURL('**/calendar?market=ETH_USDT&day=2026-11-28');
  await page.getByRole('complementary', { name: 'ETH_USDT on 2026-11-28' }).waitFor();
  await page.keyboard.press('Escape');
  await page.waitForURL('**/calendar');
});

test('while the daemon is away the page says since when, and goes on by itself', async (t) => {
  const browser = await startBrowser(t);
  if (browser === undefined) return;
  let isAway = false;
  const { page, goto } = await openConsole(browser, {
    ...{ world: { markets: 4 }, isAway: () => isAway },
  });
  await goto('/');
  const sentence = page.getByText('Collecting 4 markets.');
  await sentence.waitFor();
  isAway = true;
  await page.getByText(/No answer since 2026-11-29 08:40:1\d UTC/).waitFor();
  assert.match(await page.title(), /^○/);
  assert.equal(await sentence.count(), 1, 'the last figures stay');
  isAway = false;
  await page.getByText('No answer since').waitFor({ state: 'detached' });
  assert.equal(await page.title(), 'Overview · tapekeep');
});

test('a statement runs by the keyboard, and its rows are drawn and saved as CSV', async (t) => {
  const browser = await startBrowser(t);
  if (browser === undefined) return;
  const { page, goto, faults } = await openConsole(browser, { world: { markets: 4 } });
  await goto('/sql');
  const editor = page.locator('.cm-content');
  await editor.waitFor();
  await page.getByRole('button', { name: /Largest trades/ }).click();
  assert.equal(await editor.textContent(), 'select 2');
  await page.keyboard.press('Control+Enter');
  await page.getByText('24 rows').waitFor();
  await page.waitForURL('**/sql?q=select+2');
  await page.locator('.result-chart canvas').waitFor();
  const saving = page.waitForEvent('download');
  await page.getByRole('button', { name: 'Download CSV' }).click();
  assert.equal((await saving).suggestedFilename(), 'tapekeep.csv');
  await goto('/sql');
  await page.getByText('History').click();
  assert.equal(await page.getByRole('button', { name: 'select 2' }).count(), 1);
  assert.deepEqual(faults, []);
});

test('the form of the login keeps to this site', async (t) => {
  const browser = await startBrowser(t);
  if (browser === undefined) return;
  const { page, goto } = await openConsole(browser, { world: { markets: 4 } });
  const next = () => page.locator('input[name=next]').inputValue();
  await goto('/login?next=%2Fgaps%3Fstate%3Dopen#wrong');
  assert.equal(await next(), '/gaps?state=open');
  assert.match(await page.getByRole('alert').innerText(), /token is not known/);
  for (const away of ['//evil.test', 'https://evil.test', '/\\evil.test']) {
    await goto(`/login?next=${encodeURIComponent(away)}`);
    assert.equal(await next(), '/');
  }
});
