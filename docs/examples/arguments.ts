import { parseArgs } from 'node:util';
import { openArchive } from 'tapekeep';

/** Options that stand for an archive and a span of one market, as every example takes them. */
export function readArguments(args: readonly string[]) {
  const text = { type: 'string' } as const;
  const { values } = parseArgs({
    args: [...args],
    options: {
      'database-url': text,
      'data-dir': text,
      'cold-dir': text,
      market: text,
      from: text,
      to: text,
      interval: text,
      gaps: text,
      url: text,
      'realtime-url': text,
      records: text,
      period: text,
    },
  });
  return values;
}

export type Arguments = ReturnType<typeof readArguments>;

/** A named option that has to be there. */
export function required(values: Arguments, name: keyof Arguments): string {
  const value = values[name];
  if (value === undefined) throw new Error(`--${name} is missing`);
  return value;
}

/**
 * The archive that the options name; `./data` when they name none. Ctrl-C, or a reader such as `head`
 * that has seen enough, closes it: an embedded server that was started for it would go on running.
 */
export async function archiveOf(values: Arguments) {
  const url = values['database-url'];
  const cold = values['cold-dir'];
  const opening = openArchive({
    ...(url === undefined ? { dataDir: values['data-dir'] ?? './data' } : { databaseUrl: url }),
    ...(cold === undefined ? {} : { coldDir: cold }),
  });
  const close = () => void opening.then((archive) => archive.close()).catch(() => undefined);
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, close);
  process.stdout.once('error', close);
  return await opening;
}

/** Whether gaps may be passed over; a backtest over gaps tells little, so that it has to be said. */
export function gapsOf({ gaps }: Arguments): 'throw' | 'ignore' {
  return gaps === 'ignore' ? 'ignore' : 'throw';
}
