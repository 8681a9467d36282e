import type { VNode } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import type { Answer } from '../api/endpoints.js';
import { useAsk } from './api.js';
import { CandleChart } from './candles.js';
import { clockTime, dayAfter, NONE } from './format.js';
import { html } from './html.js';
import { useEvents } from './live.js';
import { marketsTable } from './markets.js';
import { address, type Place } from './router.js';
import { card, empty, heading, shown, tabs } from './widgets.js';

/** One market: candles, trades and book as they come, and how much of it is covered. */

type Trade = Answer<'trades'>['trades'][number];
type Book = Answer<'book'>;

const MINUTES: Readonly<Record<string, number>> = {
  ...{ '1m': 1, '5m': 5, '15m': 15, '1h': 60, '4h': 240, '1d': 1440 },
};
const INTERVALS = Object.fromEntries(Object.keys(MINUTES).map((one) => [one, one]));
/** Candles that one chart shows. */
const CANDLES = matchMedia('(max-width: 640px)').matches ? 90 : 240;
const MOST_TRADES = 100;
const BOOK_LEVELS = 12;

export function Market({ place, market }: { place: Place; market: string }): VNode {
  const day = place.query.get('day');
  const standard = day === null ? '1m' : '5m';
  const interval = place.query.get('interval') ?? standard;
  const range =
    day === null
      ? { from: `${CANDLES * (MINUTES[interval] ?? 1)}m` }
      : { from: day, to: dayAfter(day, 1) };
  const often = { everyS: 20, isFollowed: true };
  const candles = useAsk('candles', { market, interval, ...range, limit: 2000 }, often);
  const streams = useAsk('markets', { search: market, limit: 50 }, often);
  const trades = useTrades(market);
  const book = useBook(market);
  const price = trades.data?.[0]?.price;
  return html`
    ${heading(
      market,
      html`Last price <b class="figure">${price ?? NONE}</b> · spread <b class="figure">${book.data?.spread ?? NONE}</b>
        ${day !== null && html` · ${day} UTC · <a href=${address(place.path)}>Now</a>`}`,
      tabs(place, 'interval', 'Interval', INTERVALS, standard),
    )}
    ${card(
      `Candles ${interval}`,
      shown(candles, (document) =>
        document.candles.length === 0
          ? empty('No candles are stored in this time range.')
          : html`<${CandleChart} document=${document} />`,
      ),
      html`<span class="legend"><i class="key gap-shade"></i>gap <span class="muted">times in UTC</span></span>`,
    )}
    <div class="two">
      ${card('Book', shown(book, bookTable), html`<span class="muted">${bookAge(book.data)}</span>`)}
      ${card('Trades', shown(trades, tradeList), html`<span class="muted">the newest first, UTC</span>`)}
    </div>
    ${card(
      'Coverage of the last 24 hours',
      shown(streams, ({ rows, toMs }) => {
        const own = rows.filter((row) => row.market === market);
        return marketsTable(
          own,
          toMs,
          html`Nothing is collected of ${market}. <a href="/markets">Markets</a>`,
        );
      }),
      html`<span class="row"><a href=${address('/gaps', { market })}>Gaps</a> <a href=${address('/calendar', { search: market })}>Calendar</a></span>`,
    )}
  `;
}

/** Newest trades, the newest first. A trade that comes twice is shown once. */
function useTrades(market: string) {
  const first = useAsk('trades', { market, limit: MOST_TRADES });
  const [rows, setRows] = useState<readonly Trade[]>();
  const add = (more: readonly Trade[]) =>
    setRows((last = []) => {
      const known = new Set(last.map(({ id }) => id));
      const all = [...more.filter(({ id }) => !known.has(id)), ...last];
      return all.sort((a, b) => b.timeMs - a.timeMs).slice(0, MOST_TRADES);
    });
  useEffect(() => {
    if (first.data !== undefined) add([...first.data.trades].reverse());
  }, [first.data]);
  useEvents('trades', (message) => add(message.trades), market);
  const { data: _first, ...rest } = first;
  return { ...rest, ...(rows && { data: rows }) };
}

function useBook(market: string) {
  const first = useAsk('book', { market, levels: BOOK_LEVELS });
  const [book, setBook] = useState<Book>();
  useEvents('book', setBook, market);
  return { ...first, ...(book && { data: book }) };
}

const bookAge = (book: Book | undefined) =>
  book?.timeMs === null || book === undefined ? '' : `as of ${clockTime(book.timeMs)} UTC`;

function bookTable({ bids, asks, spread }: Book): VNode {
  if (bids.length === 0 && asks.length === 0) return empty('No book was seen yet.');
  // Numbers only draw the bars; what is shown are the texts of the exchange.
  const most = Math.max(...[...bids, ...asks].map(([, amount]) => Number(amount)), 0) || 1;
  const side = (levels: Book['bids'], name: string) =>
    levels.slice(0, BOOK_LEVELS).map(
      ([price, amount]) => html`<tr class=${name} key=${price}>
        <td class="figure price">${price}</td>
        <td class="figure">${amount}</td>
        <td class="depth"><svg viewBox="0 0 100 1" preserveAspectRatio="none" aria-hidden="true">
          <rect width=${(100 * Number(amount)) / most} height="1" /></svg></td>
      </tr>`,
    );
  return html`<table class="book">
    <caption class="hidden">Order book</caption>
    <thead><tr><th scope="col" class="figure">Price</th><th scope="col" class="figure">Amount</th><th scope="col"><span class="hidden">Share</span></th></tr></thead>
    <tbody>
      ${side([...asks.slice(0, BOOK_LEVELS)].reverse(), 'ask')}
      <tr class="spread"><td class="figure">${spread ?? NONE}</td><td colspan="2">spread</td></tr>
      ${side(bids, 'bid')}
    </tbody>
  </table>`;
}

function tradeList(trades: readonly Trade[]): VNode {
  if (trades.length === 0) return empty('No trades are stored yet.');
  return html`<div class="trades" tabindex="0" role="region" aria-label="Trades"><table>
    <caption class="hidden">Trades</caption>
    <thead><tr><th scope="col">Time</th><th scope="col">Side</th><th scope="col" class="figure">Price</th><th scope="col" class="figure">Amount</th></tr></thead>
    <tbody>${trades.map(
      ({ id, timeMs, side, price, amount }) => html`<tr key=${id}>
        <td>${new Date(timeMs).toISOString().slice(11, 23)}</td>
        <td class=${side}>${side}</td>
        <td class="figure">${price}</td><td class="figure">${amount}</td>
      </tr>`,
    )}</tbody>
  </table></div>`;
}
