import { parseArgs } from 'node:util';
import { type Archive, dateOf, type Moment, openArchive } from 'tapekeep';

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

const UNIT_MS: Readonly<Record<string, number>> = {
  ...{ s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 },
};

/** A named option that is a time: as the archive reads it, or `now`, or counted back from it, such as `30m`. */
export function momentOf(values: Arguments, name: 'from' | 'to'): Date | string {
  const text = required(values, name);
  if (text === 'now') return new Date();
  const [, count, unit = ''] = /^(\d{1,6}(?:\.\d{1,3})?)([smhd])$/.exec(text) ?? [];
  return count === undefined ? text : new Date(Date.now() - Number(count) * (UNIT_MS[unit] ?? 0));
}

/**
 * The span that the options name. `--from start`, and a left out `--to`, are as far as all that is read
 * of the market reaches.
 *
 * @param wanted kinds, and of candles their length, with which the archive names what it has
 */
export async function spanOf(
  archive: Pick<Archive, 'markets'>,
  values: Arguments,
  wanted: readonly { readonly kind: string; readonly variantS: number }[],
): Promise<{ readonly from: Moment; readonly to: Moment }> {
  const contents = await archive.markets();
  const found = contents.find(({ market }) => market === values.market);
  if (found === undefined) {
    const names = contents.map(({ market }) => market).join(', ');
    throw new Error(`there is no market ${required(values, 'market')}; the archive has ${names}`);
  }
  const read = found.series.filter((one) =>
    wanted.some(({ kind, variantS }) => one.kind === kind && one.variantS === variantS),
  );
  // A candle comes when it has closed: the first one a length after it opened.
  const from = Math.max(
    ...read.map(({ oldestUs, variantS }) => (oldestUs ?? 0) + variantS * 1_000_000),
  );
  const newest = Math.min(...read.map(({ newestUs }) => newestUs ?? 0));
  // The last one closes where covered time ends, and `to` is the first moment after what is read.
  const to = wanted.every(({ kind }) => kind === 'candles') ? newest + 1000 : newest;
  const isKnown = read.length > 0 && from < to;
  if (!isKnown && (values.from === 'start' || values.to === undefined)) {
    const of = wanted.map(
      ({ kind, variantS }) => `${kind}${variantS === 0 ? '' : ` of ${variantS} s`}`,
    );
    throw new Error(
      `there is no time in which the archive has ${of.join(' and ')} of ${found.market}: "tapekeep status" shows what it has; name others, or --from and --to`,
    );
  }
  const span = {
    from: values.from === 'start' && isKnown ? dateOf(from) : momentOf(values, 'from'),
    to: values.to === undefined && isKnown ? dateOf(to) : momentOf(values, 'to'),
  };
  if (values.to === undefined && new Date(span.from) >= new Date(span.to)) {
    const until = new Date(span.to).toISOString();
    throw new Error(`--from: the archive has nothing so new; it goes up to ${until}`);
  }
  return span;
}

/** Whether gaps may be passed over; a backtest over gaps tells little, so that it has to be said. */
export function gapsOf({ gaps }: Arguments): 'throw' | 'mark' {
  return gaps === 'ignore' ? 'mark' : 'throw';
}

/** The end of a result's line: how many gaps it was played over, if any. */
export function passedOver(gaps: number): string {
  return gaps === 0 ? '' : `; passed over ${gaps} ${gaps === 1 ? 'gap' : 'gaps'}`;
}
