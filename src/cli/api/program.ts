import { Command, Option } from 'commander';
import {
  type EndpointName,
  endpointNames,
  endpoints,
  type ParamsOf,
} from '../../contract/endpoints.js';
import { callCommand } from '../commands/api-call.js';
import { orderCommand } from '../commands/api-order.js';
import { watchCommand } from '../commands/api-watch.js';
import type { ExitCode } from '../exit-codes.js';
import type { CommonOptions } from '../opening/session.js';
import { durationArgument, periodArgument } from '../options/arguments.js';
import { ApiUsageError } from './access.js';
import { kebabCase, optionsOf, paramsFrom } from './options.js';
import { relativeTimeArgument } from './times.js';

const API_HELP = `
The exchange is the one of the settings (exchange.url, realtime.url), or of --url and --realtime-url.
Signed calls take the key from TAPEKEEP_ACCOUNT_KEY and TAPEKEEP_ACCOUNT_SECRET, or from the files
that TAPEKEEP_ACCOUNT_KEY_FILE and TAPEKEEP_ACCOUNT_SECRET_FILE name; never from an option, where
others on this machine could read it.

  tapekeep api markets --url http://127.0.0.1:8080
  tapekeep api kline BTC_USDT --start -1h --end now --json
  tapekeep api watch BTC_USDT --period 60 --for 10s
  tapekeep api order-new BTC_USDT --side buy --price 60000 --amount 0.001`;

const ORDER_HELP = `
Shows the order and asks before it is sent; --yes leaves the question out, and without a terminal it
is required. An order is sent once. When no answer tells what became of it, the exit code is 5.`;

interface Flags {
  readonly url?: string;
  readonly json?: boolean;
  readonly post?: boolean;
  readonly yes?: boolean;
  readonly market?: string;
}

/** The commands of `tapekeep api`: one for each row of the endpoint table, and `watch`. */
export function buildApiProgram(common: CommonOptions, finish: (code: ExitCode) => void): Command {
  const program = new Command('tapekeep api')
    .description("Calls the exchange's API: one command for each endpoint, and watch.")
    .addHelpText('after', API_HELP)
    .showHelpAfterError('(tapekeep api --help lists the endpoints)')
    .exitOverride();
  for (const name of endpointNames) addEndpoint(program, name, common, finish);
  addWatch(program, common, finish);
  return program;
}

function addEndpoint<N extends EndpointName>(
  program: Command,
  name: N,
  common: CommonOptions,
  finish: (code: ExitCode) => void,
): void {
  const { summary, access } = endpoints[name];
  const command = program
    .command(kebabCase(name))
    .description(access === 'private' ? `${summary} (signed)` : summary);
  const options = optionsOf(name, relativeTimeArgument);
  const hasMarket = options.some(({ param }) => param === 'market');
  if (hasMarket) command.argument('[market]', 'the same as --market');
  for (const { param, flags, description, isRequired, choices, read } of options) {
    const option = new Option(flags, description);
    if (choices !== undefined) option.choices([...choices]);
    if (read !== undefined) option.argParser(read);
    // The market may come as an argument instead.
    if (isRequired && param !== 'market') option.makeOptionMandatory();
    command.addOption(option);
  }
  command
    .option('--url <address>', 'base address of the exchange, in place of the setting')
    .option('--json', 'the result as one JSON document');
  if (access === 'public') command.option('--post', 'use the signed form');
  if (name === 'orderNew') {
    command.option('--yes', 'place it without asking').addHelpText('after', ORDER_HELP);
  }
  command.action(async (...given: unknown[]) => {
    const flags = command.opts<Flags & Record<string, unknown>>();
    const argument = hasMarket ? (given[0] as string | undefined) : undefined;
    const market = hasMarket ? marketOf(argument, flags.market) : undefined;
    const values = { ...flags, ...(market === undefined ? {} : { market }) };
    const options = { ...common, ...pick(flags) };
    const params = paramsFrom(name, values);
    finish(
      name === 'orderNew'
        ? await orderCommand(params as ParamsOf<'orderNew'>, options)
        : await callCommand(name, params, options),
    );
  });
}

function pick({ url, json, post, yes }: Flags): Omit<Flags, 'market'> {
  return {
    ...(url === undefined ? {} : { url }),
    ...(json === undefined ? {} : { json }),
    ...(post === undefined ? {} : { post }),
    ...(yes === undefined ? {} : { yes }),
  };
}

/** @throws ApiUsageError unless exactly one market is named */
function marketOf(argument: string | undefined, option: string | undefined): string {
  const market = argument ?? option;
  if (market === undefined) throw new ApiUsageError('name a market, such as BTC_USDT');
  if (option === undefined || option === market) return market;
  throw new ApiUsageError(`two markets are named, ${market} and --market ${option}; name one`);
}

interface WatchFlags {
  readonly period: number;
  readonly realtimeUrl?: string;
  readonly for?: number;
  readonly json?: boolean;
}

function addWatch(program: Command, common: CommonOptions, finish: (code: ExitCode) => void): void {
  program
    .command('watch')
    .description("Follows a market's state over the real-time interface, one line an event")
    .argument('<market>', 'name of a public pair')
    .option('--period <seconds>', 'time that the state sums up', periodArgument, 60)
    .option('--realtime-url <address>', 'real-time address, in place of the setting')
    .option('--for <duration>', 'stop by itself after this time, such as 10s', durationArgument)
    .option('--json', 'one JSON object an event')
    .action(async (market: string, { period, realtimeUrl, for: forMs, json }: WatchFlags) => {
      const options = {
        ...common,
        period,
        ...(realtimeUrl === undefined ? {} : { realtimeUrl }),
        ...(forMs === undefined ? {} : { forMs }),
        ...(json === undefined ? {} : { json }),
      };
      finish(await watchCommand(market, options));
    });
}
