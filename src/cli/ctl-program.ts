import { Command, InvalidArgumentError, Option } from 'commander';
import { CTL_URL_VARIABLE } from '../config/keys.js';

const URL_FORM = 'Write the address of the ready line, such as http://127.0.0.1:8080.';

function addressArgument(text: string): string {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  const isBare = url !== undefined && /^https?:$/.test(url.protocol) && url.pathname === '/';
  if (url === undefined || !isBare) throw new InvalidArgumentError(URL_FORM);
  return url.origin;
}

/**
 * The address may stand in a variable of its own, which no other command reads: who steers a sandbox
 * does not want to collect from it by accident. Where that is not set, the exchange of the settings is.
 */
function addressVariable(): string {
  const isSet = (process.env[CTL_URL_VARIABLE] ?? '') !== '';
  return isSet ? CTL_URL_VARIABLE : 'TAPEKEEP_EXCHANGE_URL';
}

/**
 * The commands that steer a server of ours while it runs, which all take its address.
 * @param server what is steered, as the command before `ctl` has it
 * @param things what can be steered, for the list of commands
 */
export function buildCtl(server: 'sandbox' | 'replay', things: string, help: string) {
  const ctl = new Command('ctl')
    // What is added to it takes this over; what goes wrong is then told like everything else.
    .exitOverride()
    .showHelpAfterError(`(tapekeep ${server} ctl --help explains the commands)`)
    .description(`steer a running ${server}: ${things}`)
    .addHelpText('after', help);
  const add = (usage: string, description: string) =>
    ctl
      .command(usage)
      .description(description)
      .addOption(
        new Option(
          '--url <address>',
          `the ${server}'s address, as its ready line has it; or the variable ${CTL_URL_VARIABLE}`,
        )
          .env(addressVariable())
          .argParser(addressArgument)
          .makeOptionMandatory(),
      );
  return { ctl, add };
}
