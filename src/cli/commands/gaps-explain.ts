import { shownDuration } from '../../kernel/durations.js';
import { spanContains, subtractSpans } from '../../kernel/span.js';
import { formatInstant, formatSpan } from '../../kernel/timestamp.js';
import {
  adviceOn,
  gapOf,
  type KnownStream,
  nextTryOf,
  type Piece,
  whyOf,
} from '../../model/explain.js';
import { STREAM_KINDS } from '../../model/series.js';
import { argument, command } from '../command.js';
import { UsageError } from '../failure.js';
import { allPieces, findGap, gapIdOf, leftOutText, streamText } from '../gaps.js';
import { partitionSpans } from '../life.js';
import { archive, type Look } from '../opening/database.js';
import { instantArgument, kindOf, resolveInstant } from '../options.js';
import { countOf, type Lines, printable, textOf } from '../output.js';
import { marketsOf, selectMarkets } from '../selection.js';

/** Pieces of one gap that are explained. */
const EXPLAINED_MAX = 10;

/** Explains a gap, or a time of the streams of a kind, in words. */
export default command({
  args: { words: argument<string[]>('an id, or a market, a kind and a time') },
  needs: archive(),
  async run(look, { words }) {
    const { store, nowMs } = look;
    const [first = '', kind, ...time] = words;
    const texts: Lines[] = [];
    if (kind === undefined) {
      const { stream, gaps, memory } = await findGap(store, first, nowMs);
      const starts = new Set(gaps.map(({ span }) => span.fromMs));
      texts.push(await explained(stream, ({ span }) => starts.has(span.fromMs), look));
      if (gaps.length === 0 && memory !== null) {
        const range = formatSpan(memory.span);
        texts.push(`Gap ${first}: ${streamText(stream)}\n  filled: ${range}, UTC`);
      }
    } else {
      const atMs = timeOf(first, kind, time.join(' '), nowMs);
      for (const stream of await streamsNamed(look, first, kind)) {
        texts.push(await explained(stream, ({ span }) => spanContains(span, atMs), look, atMs));
      }
    }
    process.stdout.write(texts.map(textOf).join('\n'));
  },
});

function timeOf(market: string, kind: string, text: string, nowMs: number): number {
  if (kindOf(kind) === undefined) {
    throw new UsageError('<kind>', kind, `write one of ${STREAM_KINDS.join(', ')}`);
  }
  if (text === '') {
    const example = `such as "tapekeep gaps explain ${market} ${kind} 2026-01-31T12:00:00Z"`;
    throw new UsageError('<time>', undefined, `name the time of ${kind}, ${example}`);
  }
  try {
    return resolveInstant(instantArgument(text), nowMs);
  } catch (error) {
    throw new UsageError('<time>', text, (error as Error).message);
  }
}

async function streamsNamed({ store }: Look, market: string, kind: string) {
  const streams = await store.inspection.streams();
  const [chosen] = selectMarkets([market], marketsOf(streams));
  const own = streams.filter(
    (one) => one.kind === kindOf(kind) && one.marketId === chosen?.marketId,
  );
  if (own.length > 0) return own;
  const advice = 'the archive has no such stream of this market; "tapekeep status" lists all';
  throw new UsageError('<kind>', kind, advice);
}

/** Each of the pieces that are meant, with what lies beside it. */
async function explained(
  stream: KnownStream,
  isMeant: (piece: Piece) => boolean,
  { store, nowMs, session: { config } }: Look,
  atMs = nowMs,
): Promise<Lines> {
  const pieces = await allPieces(store, stream, atMs, nowMs);
  const meant = pieces.filter(isMeant);
  const files = await partitionSpans(store, stream.kind, 'archived');
  const isWritten = await store.inspection.isWritten();
  const leftOut = leftOutText(config, [stream]);
  const beside = (piece: Piece | undefined) =>
    piece === undefined ? 'nothing' : `${piece.state}, ${formatSpan(wholeMs(piece.span))}`;
  const lines = meant.slice(0, EXPLAINED_MAX).map((piece): Lines => {
    const { span, state, reason, note, gapId } = piece;
    const isArchived = subtractSpans(span, files).length === 0;
    const by = { nowMs, isWritten, leftOut, isArchived };
    const gap = gapOf(piece);
    const id = gapIdOf({ gapId, streamId: stream.streamId, span });
    const at = pieces.indexOf(piece);
    const advice = adviceOn(stream, gap ?? piece, by, gap === null ? undefined : id);
    return [
      `${gap === null ? '' : `Gap ${id}: `}${streamText(stream)}`,
      `  ${formatSpan(wholeMs(span))}, UTC (${shownDuration(span.toMs - span.fromMs)})`,
      `  ${state}${reason === state ? '' : `: ${printable(reason)}`}`,
      `  ${printable(whyOf(stream, piece, nowMs))}`,
      gap && triesLine(piece, nextTryOf(stream, gap, by)),
      note?.split('\n').map((line) => `  note: ${printable(line)}`),
      `Before it: ${beside(pieces[at - 1])}`,
      `After it:  ${beside(pieces[at + 1])}`,
      advice !== null && `What to do: ${printable(advice)}`,
    ];
  });
  const more = meant.length - lines.length;
  return [lines, more > 0 && `… and ${countOf(more, 'more piece')}.`];
}

const wholeMs = ({ fromMs, toMs }: Piece['span']) => ({
  fromMs: Math.floor(fromMs),
  toMs: Math.floor(toMs),
});

function triesLine({ attempts, firstSeenAtMs }: Piece, nextTry: string): string {
  const seen =
    firstSeenAtMs === null ? '' : `first seen ${formatInstant(Math.floor(firstSeenAtMs))}; `;
  return `  ${seen}${attempts === 1 ? '1 try' : `${attempts} tries`}; next try: ${nextTry}`;
}
