import { argument, command, flag, group, nothing, option } from '../command.js';
import { type Answer, addressOption, request, type Steered, steer } from '../control.js';
import { UsageError } from '../failure.js';
import { gather } from '../options.js';
import { gatherFaultScript } from '../sandbox/files.js';

const SANDBOX: Steered = {
  name: 'sandbox',
  unknown:
    'serves no such control path: it is no sandbox, its kind of exchange cannot do this, or it needs --control',
};
const url = addressOption('sandbox');

const post = (address: string | undefined, path: string, body: object) =>
  steer(SANDBOX, address, path, { method: 'POST', body });

/** A command that posts its arguments by these names. */
const posting = (path: string, ...names: readonly string[]) =>
  command({
    args: Object.fromEntries(names.map((name) => [name, argument<string>('')])),
    options: { url },
    needs: nothing,
    run: (_, { url, ...given }) => post(url, path, given),
  });

const create = command({
  args: { market: argument<string>(''), fields: argument<string[]>('') },
  options: { url },
  help: '\nFields: stockPrec, moneyPrec, minAmount, basePrice, usualAmount, activity, takerFee, makerFee.',
  needs: nothing,
  run: (_, { url, market, fields }) => post(url, 'markets', describe(market, fields)),
});

const faults = command({
  options: {
    url,
    file: option('--file <file>', 'rules in place of those in force, YAML or JSON'),
    rule: option('--rule <rule>', 'one rule, kind=...,key=value,...; repeatable', gather),
    clear: flag('--clear', 'end all faults'),
  },
  needs: nothing,
  run(_, { url, file, rule = [], clear }) {
    if (clear) return steer(SANDBOX, url, 'faults', { method: 'DELETE' });
    if (file === undefined && rule.length === 0) return steer(SANDBOX, url, 'faults');
    const body = gatherFaultScript(file, rule);
    return steer(SANDBOX, url, 'faults', { method: 'PUT', body });
  },
});

/** Prints every trade ever issued in a market, one JSON object a line, page by page. */
const truth = command({
  args: { market: argument<string>('') },
  options: {
    url,
    from: option('--from <seconds>', 'from this time on, UNIX seconds'),
    to: option('--to <seconds>', 'before this time, UNIX seconds'),
  },
  needs: nothing,
  async run(_, { url, market, from, to }) {
    const span = { ...(from === undefined ? {} : { from }), ...(to === undefined ? {} : { to }) };
    let path: string | undefined = `truth?${new URLSearchParams({ market, ...span }).toString()}`;
    while (path !== undefined) {
      const answer: Answer = await request(SANDBOX, url, path);
      process.stdout.write(answer.text);
      path = answer.next;
    }
  },
});

const markets = command({
  options: { url },
  needs: nothing,
  run: (_, { url }) => steer(SANDBOX, url, 'markets'),
});

export default group({
  help: `
Changes need a sandbox that was started with --run or --key: what is done to it makes its history one
of its own. Every answer is one JSON document; truth prints one trade a line.

  tapekeep sandbox --port 8080 --run mine --key alice:USDT=100000
  export TAPEKEEP_CTL_URL=http://127.0.0.1:8080     # or --url; no other command reads it
  tapekeep sandbox ctl create XMR_USDT moneyPrec=3 activity=0.4 basePrice=150
  tapekeep sandbox ctl block BTC_USDT
  tapekeep sandbox ctl deposit alice BTC 2.5
  tapekeep sandbox ctl truth XMR_USDT > truth.ndjson`,
  hint: '(options stand behind the command: tapekeep sandbox ctl markets --url …; --help explains all)',
  commands: {
    'markets [options]': ['show all markets with their states', markets],
    'create [options] <market> [field=value...]': [
      'list a market, a new one or one that was delisted',
      create,
    ],
    'delist [options] <market>': [
      'end a market: its orders are cancelled, requests for it refused',
      posting('markets/delist', 'market'),
    ],
    'block [options] <market>': [
      'refuse new orders in a market ("operation blocked")',
      posting('markets/block', 'market'),
    ],
    'unblock [options] <market>': ['take orders again', posting('markets/unblock', 'market')],
    'deposit [options] <account> <currency> <amount>': [
      'give funds to an API key, or the name of one',
      posting('deposits', 'account', 'currency', 'amount'),
    ],
    'faults [options]': ['show what goes wrong and how often it did, or replace or end it', faults],
    'truth [options] <market>': ['print every trade that was ever issued', truth],
  },
});

const NUMBERS: ReadonlySet<string> = new Set(['stockPrec', 'moneyPrec', 'activity']);

/**
 * A market from `name` and `field=value`; the sandbox checks what they say.
 *
 * @throws UsageError when one is no `field=value`
 */
export function describe(name: string, fields: readonly string[]): object {
  const entries = fields.map((text) => {
    const [field = '', ...rest] = text.split('=');
    const value = rest.join('=');
    if (field === '' || value === '') {
      throw new UsageError('field', text, 'write FIELD=VALUE, such as moneyPrec=3');
    }
    const isNumber = NUMBERS.has(field) && /^\d{1,15}(\.\d{1,15})?$/.test(value);
    return [field, isNumber ? Number(value) : value] as const;
  });
  return { ...Object.fromEntries(entries), name };
}
