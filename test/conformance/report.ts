import { formatTable } from '../../src/cli/output.js';
import { VARIATIONS, type Variation, type Verdict } from './outcome.js';
import type { CaseResult, SuiteResult } from './suite.js';

export type Counts = Readonly<Record<Verdict, number>>;

export function countsOf(cases: readonly CaseResult[]): Counts {
  const counts = { pass: 0, fail: 0, differs: 0, skipped: 0 };
  for (const { verdict } of cases) counts[verdict] += 1;
  return counts;
}

/** One line for a case, and one for each remark. */
export function caseLines({ verdict, id, title, remarks }: CaseResult): string[] {
  return [
    `${verdict.padEnd(7)}  ${id.padEnd(28)}  ${title}`,
    ...remarks.map((remark) => `         ${printable(remark)}`),
  ];
}

/** The known variations that were seen, with the cases that saw them. */
function variationsOf(cases: readonly CaseResult[]): Map<Variation, string[]> {
  const seen = new Map<Variation, string[]>();
  for (const { id, variations } of cases) {
    for (const variation of variations) {
      seen.set(variation, [...(seen.get(variation) ?? []), id]);
    }
  }
  return seen;
}

/** What to try when every signed request is refused. */
function adviceFor(cases: readonly CaseResult[]): string[] {
  const signed = cases.find(({ id }) => id === 'balances.signed');
  const isRefused = signed?.remarks.some((text) => text.includes('authentication failure'));
  return isRefused ? ['the keys are refused: check them, or try the other --signed-content'] : [];
}

/** Totals by subject, the variations, and a line for the whole. */
export function summaryLines({ url, market, cases, requests, durationMs }: SuiteResult): string[] {
  const subjects = [...new Set(cases.map(({ id }) => id.split('.')[0] ?? ''))];
  const rows = subjects.map((subject) => {
    const own = cases.filter(({ id }) => id.startsWith(`${subject}.`));
    return { subject, ...countsOf(own) };
  });
  const total = { subject: 'all', ...countsOf(cases) };
  const verdicts = ['pass', 'fail', 'differs', 'skipped'] as const;
  const table = formatTable(
    [
      { title: 'subject', text: ({ subject }: typeof total) => subject },
      ...verdicts.map((verdict) => ({
        title: verdict as string,
        text: (row: typeof total) => String(row[verdict]),
        align: 'right' as const,
      })),
    ],
    [...rows, total],
  );
  const variations = [...variationsOf(cases)].map(
    ([name, ids]) => `known variation ${name}: ${VARIATIONS[name]} (${ids.length} cases)`,
  );
  const failures = (['server', 'client'] as const)
    .map((side) => ({ side, count: cases.filter(({ failed }) => failed.includes(side)).length }))
    .filter(({ count }) => count > 0)
    .map(({ side, count }) => `failed by the ${side}: ${count} cases`);
  const seconds = (durationMs / 1000).toFixed(1);
  const whole = `${cases.length} cases, ${requests} requests in ${seconds} s: ${url}, ${market}`;
  return [...table, ...failures, ...variations, ...adviceFor(cases), whole];
}

/** What came from outside must not move the cursor of a terminal. */
function printable(text: string): string {
  return text.replace(/[\p{C}\s]+/gu, ' ').slice(0, 300);
}
