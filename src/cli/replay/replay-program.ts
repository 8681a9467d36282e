import { type Command, InvalidArgumentError, Option } from 'commander';
import type { ReplayCommandOptions } from '../commands/replay.js';
import type { ExitCode } from '../exit-codes.js';
import type { CommonOptions } from '../opening/session.js';
import { durationArgument, playSpeedArgument, portArgument } from '../options/arguments.js';
import { momentArgument } from '../options/moments.js';
import { replayCtl } from './replay-ctl-program.js';

const HELP = `
Serves the archive as the exchange that it recorded, as of a moment that moves: every public GET
endpoint, and state.query and state.subscribe at the recorded spacing. Nothing later than that moment
is ever shown. Time begins with the first request, and stands at its end. Orders are refused: nobody
has a key to a recording. The book is made of depth snapshots, a level an order.

  tapekeep replay --from 2026-01-31 --to 2026-02-01 --speed 20 --port 8080
  tapekeep replay --from 2h --markets BTC_USDT,ETH_USDT --speed step --json
  tapekeep replay --from 2026-01-31T12:00 --to 2026-01-31T13:00 --as known --strict

An answer that touches a gap carries the header x-tapekeep-gap (kind, from, to, reason); with --strict
it is refused with 503. A client that sends the header X-Tapekeep-Session, or the parameter session, has
a time of its own, which begins with its first request; sessions that nobody uses for ten minutes end.

--speed   seconds of the recording in a second; max: as fast as real-time clients read; step: by hand
--as      happened: every trade and candle, however late it was collected (default);
          known: only what this archive had received by then, in the versions of then
          (what came later is told of like a gap, "received later")
Collecting from a replay needs a database of its own; it is never mixed with the real exchange. What is
missing here is then listed as missing there; with --strict nothing around it can be collected either.`;

function namesArgument(text: string, earlier: readonly string[] = []): string[] {
  const names = text.split(',').map((name) => name.trim());
  if (names.some((name) => name === '')) {
    throw new InvalidArgumentError('Write names with commas between, such as BTC_USDT,ETH_USDT.');
  }
  return [...new Set([...earlier, ...names])];
}

/** Adds `tapekeep replay`. */
export function addReplay(
  program: Command,
  common: () => CommonOptions,
  finish: (code: ExitCode) => void,
): void {
  program
    .command('replay')
    .description('serve the archive as an exchange of the past')
    .option('--from <time>', 'where time begins (default: where the archive does)', momentArgument)
    .option('--to <time>', 'where it ends (default: where the archive does)', momentArgument)
    .option('-m, --markets <names>', 'only these markets, with commas; repeatable', namesArgument)
    .option('--speed <factor>', 'how fast time passes: 1, 100, max, step', playSpeedArgument, 1)
    .addOption(
      new Option('--as <mode>', 'what is there: all that happened, or what was known')
        .choices(['happened', 'known'])
        .default('happened'),
    )
    .option('--strict', 'refuse what touches a gap')
    .option('--with-disconnects', 'end connections where the recorded ones ended')
    .option('--host <address>', 'address to listen on', '127.0.0.1')
    .option('--port <number>', 'port to listen on; 0 takes a free one', portArgument, 0)
    .option('--for <duration>', 'stop by itself after this time', durationArgument)
    .option('--control', 'serve the paths below /replay/ that steer time (default: on loopback)')
    .option('--no-control', 'refuse them')
    .option('--json', 'print the ready line as JSON')
    .enablePositionalOptions()
    .addCommand(replayCtl(finish))
    .addHelpText('after', HELP)
    .action(async (options: Omit<ReplayCommandOptions, keyof CommonOptions>) => {
      const { replayCommand } = await import('../commands/replay.js');
      finish(await replayCommand({ ...common(), ...options }));
    });
}
