import { spawnSync } from 'node:child_process';
import type { TestContext } from 'node:test';
import { type Browser, chromium } from 'playwright-core';

/** Names under which Debian, others and Google install it. */
const NAMES = ['chromium', 'chromium-browser', 'google-chrome'];

/** Starts Chromium for a test, which is skipped where none is installed. */
export async function startBrowser(t: TestContext): Promise<Browser | undefined> {
  const found = NAMES.find((name) => spawnSync(name, ['--version']).status === 0);
  if (found === undefined) {
    t.skip('no Chromium is installed here (apt-get install chromium)');
    return undefined;
  }
  const path = spawnSync('which', [found], { encoding: 'utf8' }).stdout.trim();
  const browser = await chromium.launch({
    executablePath: path,
    args: ['--no-sandbox', '--disable-gpu'],
  });
  t.after(() => browser.close());
  return browser;
}
