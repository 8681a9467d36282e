import { readFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { Progress } from '../../src/cli/progress.js';
import { type Credentials, InvalidAddressError } from '../../src/client/index.js';
import { systemClock } from '../../src/kernel/clock.js';
import { messageOf } from '../../src/kernel/errors.js';
import { UnusableError } from './context.js';
import { caseLines, countsOf, summaryLines } from './report.js';
import { runSuite, type SuiteOptions } from './suite.js';

/**
 * Judges an exchange by the contract: `npm run conformance -- --url https://exchange.example`.
 */
const USAGE = `Usage: npm run conformance -- --url URL [options]

Calls an exchange, raw and through the typed client, and compares requests and responses with the
contract. It knows only the contract's paths and words; "tapekeep doctor" checks an exchange of another
dialect. Pushed trades are not in the contract; they are requested in the words of known servers.

  --url URL          base URL of the exchange (http or https)
  --realtime URL     address of its WebSocket (ws or wss); without it those cases are skipped
  --market NAME      a market that is traded; without it one is chosen
  --keys FILE        JSON file {"apiKey": "…", "secret": "…"}: tries the signed forms too; with
                     "inactive": {"apiKey": "…", "secret": "…"} also a key that is not activated
  --signed-content C payload (default) or body: what a signature covers at this exchange
  --allow-orders     with keys: places one small order to buy, at half the best bid, and tries
                     orders that must be refused. A sandbox of tapekeep needs no such leave;
                     no other exchange is ever sent an order without it
  --rate N           requests per second, 0.1 to 1000 (default 2)
  --max-requests N   requests in all (default 400)
  --timeout S        seconds to wait for an answer (default 15)
  --only TEXT        only cases whose name contains TEXT
  --json             one JSON document instead of text
  --help             this text

Verdicts
  pass      as the contract says
  differs   a departure that exchanges of this family are known for; tapekeep copes with it
  fail      the contract is broken; the remark says by whom, "server" or "client"
  skipped   could not be looked at, with the reason

Exit codes
  0  no case failed (those that differ count as good)
  1  a case failed, or the exchange cannot be used
  2  the options are wrong
`;

class UsageFault extends Error {}

function numberOf(name: string, text: string, min: number, max: number): number {
  const value = /^\d+(\.\d+)?$/.test(text) ? Number(text) : Number.NaN;
  if (value >= min && value <= max) return value;
  throw new UsageFault(`--${name} ${text}: write a number from ${min} to ${max}`);
}

function credentialsOf(value: unknown): Credentials | undefined {
  const { apiKey, secret } = (value ?? {}) as { apiKey?: unknown; secret?: unknown };
  return typeof apiKey === 'string' && typeof secret === 'string' ? { apiKey, secret } : undefined;
}

function readKeys(path: string): Pick<SuiteOptions, 'credentials' | 'inactive'> {
  let keys: unknown;
  try {
    keys = JSON.parse(readFileSync(path, 'utf8'));
  } catch {
    throw new UsageFault(`--keys ${path}: not a readable JSON file`);
  }
  const credentials = credentialsOf(keys);
  if (credentials === undefined) {
    throw new UsageFault(`--keys ${path}: it must hold apiKey and secret`);
  }
  const { inactive: written } = keys as { inactive?: unknown };
  if (written === undefined) return { credentials };
  const inactive = credentialsOf(written);
  if (inactive !== undefined) return { credentials, inactive };
  throw new UsageFault(`--keys ${path}: inactive must hold apiKey and secret`);
}

function readOptions(args: readonly string[]): SuiteOptions & { json: boolean } {
  const { values } = parseArgs({
    args: [...args],
    options: {
      url: { type: 'string' },
      realtime: { type: 'string' },
      market: { type: 'string' },
      keys: { type: 'string' },
      'signed-content': { type: 'string', default: 'payload' },
      'allow-orders': { type: 'boolean', default: false },
      rate: { type: 'string', default: '2' },
      'max-requests': { type: 'string', default: '400' },
      timeout: { type: 'string', default: '15' },
      only: { type: 'string', default: '' },
      json: { type: 'boolean', default: false },
    },
  });
  const { url, realtime, market, keys, rate, timeout, only, json } = values;
  if (url === undefined) throw new UsageFault('--url is missing');
  const isSocket = realtime === undefined || /^wss?:\/\/./.test(realtime);
  if (!isSocket) throw new UsageFault(`--realtime ${realtime}: it must begin with ws:// or wss://`);
  if (values['allow-orders'] && keys === undefined) {
    throw new UsageFault('--allow-orders: orders need --keys');
  }
  const signedContent = values['signed-content'];
  if (signedContent !== 'payload' && signedContent !== 'body') {
    throw new UsageFault(`--signed-content ${signedContent}: write payload or body`);
  }
  const timeoutMs = numberOf('timeout', timeout, 0.1, 300) * 1000;
  return {
    url,
    ...(realtime === undefined ? {} : { realtimeUrl: realtime }),
    ...(market === undefined ? {} : { market }),
    ...(keys === undefined ? {} : readKeys(keys)),
    signedContent,
    allowOrders: values['allow-orders'],
    clock: systemClock,
    ratePerS: numberOf('rate', rate, 0.1, 1000),
    maxRequests: numberOf('max-requests', values['max-requests'], 1, 10_000),
    timeoutMs,
    realtimeTimeoutMs: timeoutMs,
    only,
    json,
  };
}

async function main(args: readonly string[]): Promise<number> {
  if (args.includes('--help')) {
    process.stdout.write(USAGE);
    return 0;
  }
  const { json, ...options } = readOptions(args);
  const print = (lines: readonly string[]) => process.stdout.write(`${lines.join('\n')}\n`);
  let progress: Progress | undefined;
  const result = await runSuite({
    ...options,
    onResult: (row, total) => {
      progress ??= new Progress('cases', total);
      // The bar makes room for the line, and comes back below it.
      progress.end();
      if (!json) print(caseLines(row));
      progress.advance(1, row.id);
    },
  }).finally(() => progress?.end());
  const counts = countsOf(result.cases);
  print(json ? [JSON.stringify({ ...result, counts })] : ['', ...summaryLines(result)]);
  if (result.cases.length === 0) throw new UsageFault(`--only ${options.only}: no case has it`);
  return counts.fail === 0 ? 0 : 1;
}

try {
  process.exitCode = await main(process.argv.slice(2));
} catch (error) {
  const isUsage =
    error instanceof UsageFault ||
    error instanceof InvalidAddressError ||
    (error as { code?: unknown }).code?.toString().startsWith('ERR_PARSE_ARGS') === true;
  if (!isUsage && !(error instanceof UnusableError)) throw error;
  // Where the client speaks of its setting, people gave an option.
  const text = messageOf(error).replace(/^baseUrl (?=.)/, '--url ');
  process.stderr.write(`${text}\n${isUsage ? USAGE : ''}`);
  process.exitCode = isUsage ? 2 : 1;
}
