/**
 * Runs an example: `npm run example -- NAME [options]`. Each tells its options at its top.
 */
const EXAMPLES = {
  'moving-average': () => import('./moving-average.js'),
  'market-making': () => import('./market-making.js'),
  'paper-trader': () => import('./paper-trader.js'),
};

/** What the library calls by the names of its parameters, as options of the command line. */
function hint(error: unknown): string {
  const code = error instanceof Error && 'code' in error ? error.code : undefined;
  if (code === 'archive_gaps') return '\nHere that is the option --gaps ignore.';
  return code === 'no_archive' ? '\nHere that is --data-dir, or --database-url.' : '';
}

const [name = '', ...args] = process.argv.slice(2);
const load = Object.entries(EXAMPLES).find(([known]) => known === name)?.[1];
if (load === undefined) {
  process.stderr.write(`name an example: ${Object.keys(EXAMPLES).join(', ')}\n`);
  process.exitCode = 2;
} else {
  const { main } = await load();
  await main(args).catch((error: unknown) => {
    process.stderr.write(
      `${error instanceof Error ? error.message : String(error)}${hint(error)}\n`,
    );
    process.exitCode = 1;
  });
}
