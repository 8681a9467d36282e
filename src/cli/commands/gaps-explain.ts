import {
  EXPLAINED_MAX,
  explainGap,
  type PieceDocument,
  type StreamPieces,
  streamPieces,
} from '../../console/api/gaps.js';
import { type LeftOut, readSurroundings } from '../../console/api/pieces.js';
import { allPieces, findGaps, marketsOf, selectMarkets } from '../../console/api/selection.js';
import { shownDuration } from '../../kernel/durations.js';
import { resolveInstant } from '../../kernel/instants.js';
import { spanContains } from '../../kernel/span.js';
import { formatInstant, formatSpan, isoMs } from '../../kernel/timestamp.js';
import { STREAM_KINDS } from '../../model/series.js';
import { argument, command } from '../command.js';
import { UsageError } from '../failure.js';
import { leftOutText, streamText } from '../gaps.js';
import { archive, type Look } from '../opening/database.js';
import { instantArgument, JSON_DOCUMENT, kindOf } from '../options.js';
import { type Lines, printable, printReport } from '../output.js';

/** Explains a gap, or a time of the streams of a kind, in words. */
export default command({
  args: { words: argument<string[]>('an id, or a market, a kind and a time') },
  options: { json: JSON_DOCUMENT },
  needs: archive(),
  async run(look, { words, json }) {
    const { nowMs } = look;
    const [first = '', kind, ...time] = words;
    const streams =
      kind === undefined
        ? await explainedGap(look, first)
        : await explainedTime(look, first, kind, time.join(' '));
    printReport(json, { at: isoMs(nowMs), streams }, () =>
      streams.map((stream, at) => [at > 0 && '', streamLines(stream)]),
    );
  },
});

const leftOutBy =
  ({ session: { config } }: Look): LeftOut =>
  (streams) =>
    leftOutText(config, streams);

async function explainedGap(look: Look, id: string) {
  const { store, nowMs, signal } = look;
  const explained = [];
  for (const named of await findGaps(store, [id], nowMs, '<id>', signal)) {
    explained.push(await explainGap(store, named, nowMs, leftOutBy(look)));
  }
  return explained;
}

async function explainedTime(look: Look, market: string, kind: string, time: string) {
  const { store, nowMs } = look;
  const atMs = timeOf(market, kind, time, nowMs);
  const explained = [];
  for (const stream of await streamsNamed(look, market, kind)) {
    const pieces = await allPieces(store, stream, atMs, nowMs);
    const around = await readSurroundings(store, stream, nowMs, leftOutBy(look));
    const isMeant = ({ span }: (typeof pieces)[number]) => spanContains(span, atMs);
    explained.push(streamPieces(stream, pieces, isMeant, around, EXPLAINED_MAX));
  }
  return explained;
}

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
  const [chosen] = selectMarkets([market], marketsOf(streams), '<market>');
  const own = streams.filter(
    (one) => one.kind === kindOf(kind) && one.marketId === chosen?.marketId,
  );
  if (own.length > 0) return own;
  const advice = 'the archive has no such stream of this market; "tapekeep status" lists all';
  throw new UsageError('<kind>', kind, advice);
}

const rangeText = ({ from, to }: { readonly from: string; readonly to: string }) =>
  formatSpan({ fromMs: Date.parse(from), toMs: Date.parse(to) });

/** Each of the pieces that are meant, with what lies beside it. */
function streamLines({ pieces, isCut, ...stream }: StreamPieces): Lines {
  return [
    pieces.map((piece) => {
      const title = `${piece.id === null ? '' : `Gap ${piece.id}: `}${streamText(stream)}`;
      return piece.state === 'filled'
        ? [title, `  filled: ${rangeText(piece)}, UTC`]
        : [title, ...pieceLines(piece)];
    }),
    isCut && '… and more pieces.',
  ];
}

function pieceLines(piece: PieceDocument): readonly Lines[] {
  const { state, reason, note, why, advice, before, after, lengthMs } = piece;
  const beside = (one: typeof before) => (one ? `${one.state}, ${rangeText(one)}` : 'nothing');
  return [
    `  ${rangeText(piece)}, UTC (${shownDuration(lengthMs)})`,
    `  ${state}${reason === state ? '' : `: ${printable(reason)}`}`,
    `  ${printable(why)}`,
    piece.nextTry !== null && triesLine(piece, piece.nextTry),
    note?.split('\n').map((line) => `  note: ${printable(line)}`),
    `Before it: ${beside(before)}`,
    `After it:  ${beside(after)}`,
    advice !== null && `What to do: ${printable(advice)}`,
  ];
}

function triesLine({ attempts, firstSeenAt }: PieceDocument, nextTry: string): string {
  const seen = firstSeenAt ? `first seen ${formatInstant(Date.parse(firstSeenAt))}; ` : '';
  return `  ${seen}${attempts === 1 ? '1 try' : `${attempts} tries`}; next try: ${nextTry}`;
}
