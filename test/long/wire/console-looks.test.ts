import assert from 'node:assert/strict';
import { test } from 'node:test';
import axe from 'axe-core';
import type { Page } from 'playwright-core';
import type { ConsoleWorld } from '../../support/console/documents.js';
import { type OpenedPage, openConsole, PAGES } from '../../support/console/pages.js';
import { startBrowser } from '../../support/programs/browser.js';

/** Each page as people with a wide screen, a phone, a dark room or a screen reader meet it. */

interface Look {
  readonly name: string;
  readonly width: number;
  readonly colorScheme: 'light' | 'dark';
  readonly world: ConsoleWorld;
  readonly isAway?: boolean;
}

const PHONE = 390;
const LOOKS: readonly Look[] = [
  { name: 'with gaps', width: 1280, colorScheme: 'light', world: { markets: 500, isIll: true } },
  { name: 'with gaps', width: PHONE, colorScheme: 'dark', world: { markets: 500, isIll: true } },
  { name: 'well', width: 1280, colorScheme: 'dark', world: { markets: 4 } },
  { name: 'well', width: PHONE, colorScheme: 'light', world: { markets: 4 } },
  { name: 'young', width: PHONE, colorScheme: 'light', world: { markets: 4, isYoung: true } },
  { name: 'away', width: 1280, colorScheme: 'light', world: { markets: 4 }, isAway: true },
];

const SERIOUS = `axe.run(document, { resultTypes: ['violations'] }).then(({ violations }) =>
  violations.filter(({ impact }) => impact === 'serious' || impact === 'critical')
    .flatMap(({ id, nodes }) => nodes.slice(0, 3).map(({ html }) => id + ': ' + html.slice(0, 160))))`;

/** Serious faults for people who hear or who do not use a pointer. */
async function accessFaults(page: Page): Promise<string[]> {
  await page.evaluate(axe.source);
  return await page.evaluate<string[]>(SERIOUS);
}

const SIDEWAYS = 'document.documentElement.scrollWidth - innerWidth';
const isUnanswered = (text: string) => text.startsWith('Failed to load resource');

async function checkPage(opened: OpenedPage, path: string, title: string, isAway: boolean) {
  const { page, faults } = opened;
  await opened.goto(path);
  assert.equal(await page.locator('h1').first().textContent(), title);
  assert.equal(await page.evaluate(SIDEWAYS), 0, 'it scrolls sideways');
  assert.deepEqual(await accessFaults(page), []);
  assert.deepEqual(
    faults.splice(0).filter((text) => !(isAway && isUnanswered(text))),
    [],
  );
}

for (const { name, width, colorScheme, world, isAway = false } of LOOKS) {
  test(`pages ${name} at ${width} px, ${colorScheme}, ${world.markets} markets, have no fault`, async (t) => {
    const browser = await startBrowser(t);
    if (browser === undefined) return;
    const viewport = { width, height: 900 };
    const opened = await openConsole(browser, {
      ...{ world, isAway: () => isAway, colorScheme, viewport },
    });
    opened.page.on('dialog', () => assert.fail('a name of a market ran as script'));
    for (const [path, title] of Object.entries(PAGES)) {
      await t.test(path, () => checkPage(opened, path, title, isAway));
    }
  });
}
