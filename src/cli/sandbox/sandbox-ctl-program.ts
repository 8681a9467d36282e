import type { Command } from 'commander';
import { buildCtl } from '../ctl-program.js';
import type { ExitCode } from '../exit-codes.js';
import { gather } from '../options/arguments.js';
import { gatherFaultScript } from './fault-script.js';

const CTL_HELP = `
Changes need a sandbox that was started with --run or --key: what is done to it makes its history one
of its own. Every answer is one JSON document; truth prints one trade a line.

  tapekeep sandbox --port 8080 --run mine --key alice:USDT=100000
  export TAPEKEEP_CTL_URL=http://127.0.0.1:8080     # or --url; no other command reads it
  tapekeep sandbox ctl create XMR_USDT moneyPrec=3 activity=0.4 basePrice=150
  tapekeep sandbox ctl block BTC_USDT
  tapekeep sandbox ctl deposit alice BTC 2.5
  tapekeep sandbox ctl truth XMR_USDT > truth.ndjson`;

interface FaultFlags {
  readonly file?: string;
  readonly rule?: string[];
  readonly clear?: boolean;
}

/** `tapekeep sandbox ctl`: steers a running sandbox from the command line. */
export function sandboxCtl(finish: (code: ExitCode) => void): Command {
  const { ctl, add } = buildCtl('sandbox', 'markets, orders, funds, faults, its truth', CTL_HELP);
  const load = () => import('../commands/sandbox-ctl.js');
  add('markets', 'show all markets with their states').action(async ({ url }: { url: string }) => {
    finish(await (await load()).show(url, 'markets'));
  });
  add('create <market> [field=value...]', 'list a market, a new one or one that was delisted')
    .addHelpText(
      'after',
      '\nFields: stockPrec, moneyPrec, minAmount, basePrice, usualAmount, activity, takerFee, makerFee.',
    )
    .action(async (market: string, fields: string[], { url }: { url: string }) => {
      const { change, describe } = await load();
      finish(await change(url, 'POST', 'markets', describe(market, fields)));
    });
  for (const [verb, description] of [
    ['delist', 'end a market: its orders are cancelled, requests for it refused'],
    ['block', 'refuse new orders in a market ("operation blocked")'],
    ['unblock', 'take orders again'],
  ] as const) {
    add(`${verb} <market>`, description).action(
      async (market: string, { url }: { url: string }) => {
        finish(await (await load()).change(url, 'POST', `markets/${verb}`, { market }));
      },
    );
  }
  add(
    'deposit <account> <currency> <amount>',
    'give funds to an API key, or the name of one',
  ).action(async (account: string, currency: string, amount: string, { url }: { url: string }) => {
    const funds = { account, currency, amount };
    finish(await (await load()).change(url, 'POST', 'deposits', funds));
  });
  add('faults', 'show what goes wrong and how often it did, or replace or end it')
    .option('--file <file>', 'rules in place of those in force, YAML or JSON')
    .option('--rule <rule>', 'one rule, kind=...,key=value,...; repeatable', gather)
    .option('--clear', 'end all faults')
    .action(async ({ url, ...flags }: FaultFlags & { url: string }) => {
      const { change, show } = await load();
      const { file, rule = [], clear } = flags;
      if (clear === true) finish(await change(url, 'DELETE', 'faults'));
      else if (file === undefined && rule.length === 0) finish(await show(url, 'faults'));
      else finish(await change(url, 'PUT', 'faults', gatherFaultScript(file, rule)));
    });
  add('truth <market>', 'print every trade that was ever issued')
    .option('--from <seconds>', 'from this time on, UNIX seconds')
    .option('--to <seconds>', 'before this time, UNIX seconds')
    .action(async (market: string, flags: { url: string; from?: string; to?: string }) => {
      const { url, from, to } = flags;
      const { printTruth } = await load();
      const span = { ...(from === undefined ? {} : { from }), ...(to === undefined ? {} : { to }) };
      finish(await printTruth(url, { market, ...span }));
    });
  return ctl;
}
