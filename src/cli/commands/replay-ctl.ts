import { SESSION_HEADER, sessionIn } from '../../contract/extensions.js';
import { systemClock } from '../../kernel/clock.js';
import { type Argument, argument, command, group, nothing, option } from '../command.js';
import { addressOption, type Steered, steer } from '../control.js';
import {
  durationArgument,
  instantArgument,
  playSpeedArgument,
  resolveInstant,
} from '../options.js';

/** A time; one that counts back does so from now, as where the replay was started. */
const momentArgument = (text: string) =>
  resolveInstant(instantArgument(text), systemClock.wallMs());

const REPLAY: Steered = { name: 'replay', unknown: 'is no replay' };

/** A command that sends one request, and prints how the time stands afterwards. */
function steering<T>(
  method: 'GET' | 'POST' | 'DELETE',
  path: string,
  value?: Argument<T>,
  bodyOf?: (value: T) => object,
) {
  return command({
    args: value === undefined ? {} : { value },
    options: {
      url: addressOption('replay'),
      session: option(
        '--session <name>',
        'the time of this session; default the one that the address names, else the shared one',
      ),
    },
    needs: nothing,
    async run(_, { url, session, ...given }) {
      const named = session ?? (url === undefined ? null : sessionIn(url));
      const headers = named === null ? {} : { [SESSION_HEADER]: named };
      const body = bodyOf?.((given as { readonly value: T }).value);
      await steer(REPLAY, url, path, { method, body, headers }, readable);
    },
  });
}

const seek = argument('a time within the replayed span', momentArgument);
const step: Argument<number | undefined> = argument('such as 500ms or 30s', durationArgument);
const speed = argument('1, 100, max or step', playSpeedArgument);

export default group({
  help: `
Every answer is one JSON document: how the time of the session stands afterwards. Without --session it is
that of the session in the address (http://127.0.0.1:8080/?session=mine), else the one that all share. A
session begins with the first request of a client that names it, or by begin; no other command makes one.

  export TAPEKEEP_CTL_URL=http://127.0.0.1:8080     # or --url; no other command reads it
  tapekeep replay ctl pause
  tapekeep replay ctl seek 2026-01-31T12:00:00Z     # or this long before now, such as 5m
  tapekeep replay ctl step            # to the next recorded trade or observation
  tapekeep replay ctl step 30s
  tapekeep replay ctl speed 100
  tapekeep replay ctl begin --session mine
  tapekeep replay ctl clock --session mine`,
  hint: '(options stand behind the command: tapekeep replay ctl clock --url …; --help explains all)',
  commands: {
    'clock [options]': ['show how time stands', steering('GET', 'clock')],
    'sessions [options]': ['show the time of every session', steering('GET', 'sessions')],
    'begin [options]': [
      'make a session before its first client comes; its time waits for that',
      steering('POST', 'sessions'),
    ],
    'pause [options]': ['stop time', steering('POST', 'pause')],
    'resume [options]': ['let time go on', steering('POST', 'resume')],
    'end [options]': [
      'forget a session: its connections are closed',
      steering('DELETE', 'sessions'),
    ],
    'seek [options] <time>': [
      'go to a time, ahead or back',
      steering('POST', 'seek', seek, (to) => ({ to })),
    ],
    'step [options] [duration]': [
      'go ahead by a time, or to the next thing that was recorded',
      steering('POST', 'step', step, (ms) => (ms === undefined ? {} : { ms })),
    ],
    'speed [options] <factor>': [
      'let time pass at another speed',
      steering('POST', 'speed', speed, (factor) => ({ speed: factor })),
    ],
  },
});

const INSTANT_FIELD = /^(now|from|to)Ms$/;

/** Times as people read them beside their milliseconds. */
function readable(result: unknown): unknown {
  if (Array.isArray(result)) return result.map(readable);
  if (typeof result !== 'object' || result === null) return result;
  const entries = Object.entries(result).flatMap(([name, value]): Array<[string, unknown]> => {
    const [, label] = INSTANT_FIELD.exec(name) ?? [];
    if (label === undefined || typeof value !== 'number') return [[name, value]];
    return [
      [label, new Date(value).toISOString()],
      [name, value],
    ];
  });
  return Object.fromEntries(entries);
}
