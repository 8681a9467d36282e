import { InvalidArgumentError } from 'commander';
import { nearestName } from '../../kernel/nearest.js';
import { GAP_REASONS } from '../../ledger/gap-reasons.js';
import { SERIES, type StreamKind, streamsOf, WRITTEN_SERIES } from '../../model/series.js';

/** The series that people name here: those of markets, without former versions. */
const NAMED = WRITTEN_SERIES.filter((table) => SERIES[table].retention !== 'account');
/** What else people call a stream: in the singular, as its table, or as its rows. */
const KINDS: ReadonlyMap<string, StreamKind> = new Map(
  NAMED.flatMap((table): [string, StreamKind][] => {
    const { kind, batch } = SERIES[table];
    const [own, ...companions] = streamsOf(table);
    return [
      ...[kind, batch, own, table].map((word): [string, StreamKind] => [word, own]),
      ...companions.flatMap((one): [string, StreamKind][] => [
        [one, one],
        [one.replace(/s$/, ''), one],
      ]),
    ];
  }),
);
const SHOWN = NAMED.flatMap((table) => [SERIES[table].kind, ...streamsOf(table).slice(1)]);
/** What can be asked for again later. */
const FETCHABLE = NAMED.filter((table) => SERIES[table].isFetchable).map(
  (table) => SERIES[table].kind,
);

/** A stream's kind as people call it; undefined for what is none. */
export function kindOf(word: string): StreamKind | undefined {
  return KINDS.get(word.trim().toLowerCase());
}

/** Reads and gathers a list of kinds with commas. */
export function kindsArgument(text: string, earlier: readonly StreamKind[] = []): StreamKind[] {
  return [...new Set([...earlier, ...wordsOf(text).map((word) => readKind(word, SHOWN))])];
}

/** The same of what can be fetched later: trades (with their exact times) and klines. */
export function fetchedKindsArgument(
  text: string,
  earlier: readonly StreamKind[] = [],
): StreamKind[] {
  const kinds = wordsOf(text).map((word) => {
    const kind = readKind(word, FETCHABLE);
    if (kind === 'trades' || kind === 'kline') return kind;
    const why = kind === 'times' ? 'times come with trades' : 'it can only be seen at its moment';
    throw new InvalidArgumentError(
      `"${word}" can not be filled: ${why}. Write trades, klines or both.`,
    );
  });
  return [...new Set([...earlier, ...kinds])];
}

function wordsOf(text: string): string[] {
  return text.split(',').filter((word) => word.trim() !== '');
}

function readKind(word: string, allowed: readonly string[]): StreamKind {
  const kind = kindOf(word);
  if (kind !== undefined) return kind;
  throw new InvalidArgumentError(unknown(word, 'kind', allowed));
}

function unknown(word: string, what: string, allowed: readonly string[]): string {
  const nearest = nearestName(word, allowed);
  const advice = nearest === undefined ? '' : ` Did you mean "${nearest}"?`;
  return `There is no ${what} "${word}".${advice} Allowed: ${allowed.join(', ')}.`;
}

const STATES = ['open', 'filling', 'unfillable'] as const;
type State = (typeof STATES)[number];

/** Reads and gathers a list of states of gaps with commas. */
export function statesArgument(text: string, earlier: readonly State[] = []): State[] {
  const states = wordsOf(text).map((word) => {
    const state = STATES.find((one) => one === word.trim().toLowerCase());
    if (state === undefined) throw new InvalidArgumentError(unknown(word, 'state', STATES));
    return state;
  });
  return [...new Set([...earlier, ...states])];
}

/** Reads and gathers a list of reasons with commas; underscores as in the metrics are spaces. */
export function reasonsArgument(text: string, earlier: readonly string[] = []): string[] {
  const known = Object.keys(GAP_REASONS);
  const reasons = wordsOf(text).map((word) => {
    const reason = word.trim().toLowerCase().replaceAll('_', ' ');
    if (!known.includes(reason)) throw new InvalidArgumentError(unknown(word, 'reason', known));
    return reason;
  });
  return [...new Set([...earlier, ...reasons])];
}

/** `kline 60s`: a stream as people read it. */
export function streamName({ kind, variant }: { kind: string; variant: number }): string {
  return variant === 0 ? kind : `${kind} ${variant}s`;
}
