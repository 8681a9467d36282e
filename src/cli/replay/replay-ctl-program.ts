import { type Command, InvalidArgumentError } from 'commander';
import { buildCtl } from '../ctl-program.js';
import type { ExitCode } from '../exit-codes.js';
import { durationArgument, playSpeedArgument } from '../options/arguments.js';
import { momentArgument } from '../options/moments.js';

const CTL_HELP = `
Every answer is one JSON document: how the time of the session stands afterwards. Without --session it
is the time that all share who name none.

  export TAPEKEEP_CTL_URL=http://127.0.0.1:8080     # or --url; no other command reads it
  tapekeep replay ctl pause
  tapekeep replay ctl seek 2026-01-31T12:00:00Z
  tapekeep replay ctl step            # to the next recorded trade or observation
  tapekeep replay ctl step 30s
  tapekeep replay ctl speed 100
  tapekeep replay ctl clock --session mine`;

/** A moment that does not depend on when it is read. */
function fixedMomentArgument(text: string): number {
  const moment = momentArgument(text);
  if ('atMs' in moment) return moment.atMs;
  throw new InvalidArgumentError('Write a time such as 2026-01-31T12:00:00Z.');
}

interface Target {
  readonly url: string;
  readonly session?: string;
}

/** `tapekeep replay ctl`: steers the time of a running replay. */
export function replayCtl(finish: (code: ExitCode) => void): Command {
  const { ctl, add: addCommand } = buildCtl('replay', 'pause, resume, seek, step, speed', CTL_HELP);
  const add = (usage: string, description: string) =>
    addCommand(usage, description).option(
      '--session <name>',
      'the time of this session instead of the shared one',
    );
  const send = async (
    { url, session }: Target,
    method: 'GET' | 'POST' | 'DELETE',
    path: string,
    body?: object,
  ) => {
    const { steerReplay } = await import('../commands/replay-ctl.js');
    finish(await steerReplay({ url, session, method, path, body }));
  };
  add('clock', 'show how time stands').action((target: Target) => send(target, 'GET', 'clock'));
  add('sessions', 'show the time of every session').action((target: Target) =>
    send(target, 'GET', 'sessions'),
  );
  add('pause', 'stop time').action((target: Target) => send(target, 'POST', 'pause'));
  add('resume', 'let time go on').action((target: Target) => send(target, 'POST', 'resume'));
  add('end', 'forget a session: its connections are closed').action((target: Target) =>
    send(target, 'DELETE', 'sessions'),
  );
  add('seek', 'go to a moment, ahead or back')
    .argument('<time>', 'a moment within the replayed span', fixedMomentArgument)
    .action((to: number, target: Target) => send(target, 'POST', 'seek', { to }));
  add('step', 'go ahead by a time, or to the next thing that was recorded')
    .argument('[duration]', 'such as 500ms or 30s', durationArgument)
    .action((ms: number | undefined, target: Target) =>
      send(target, 'POST', 'step', ms === undefined ? {} : { ms }),
    );
  add('speed', 'let time pass at another speed')
    .argument('<factor>', '1, 100, max or step', playSpeedArgument)
    .action((speed: number | string, target: Target) => send(target, 'POST', 'speed', { speed }));
  return ctl;
}
