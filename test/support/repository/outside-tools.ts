import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';

/**
 * Lets the programs themselves read what was written for them, where they are installed: a Python of
 * the system, or the one that TAPEKEEP_TEST_PYTHON names. What each reads is compared there; nothing
 * of this is needed for the other tests, which look at the bytes.
 */

const READERS: Readonly<Record<string, string>> = {
  freqtrade: `
from pathlib import Path
from freqtrade.data.history.datahandlers import get_datahandler
from freqtrade.enums import CandleType, TradingMode
handler = get_datahandler(Path('.'), 'feather')
candles = handler.ohlcv_load('BTC/USDT', '1h', CandleType.SPOT, drop_incomplete=False)
assert candles['close'].tolist() == [103, 103.9, 106], candles
trades = handler.trades_load('BTC/USDT', TradingMode.SPOT)
assert trades['id'].tolist() == [str(one) for one in range(1, 10)], trades
assert trades['price'].tolist()[5] == 104.1 and trades['cost'].tolist()[6] == 20.78, trades`,
  backtrader: `
import backtrader
seen = []
class Look(backtrader.Strategy):
    def next(self):
        seen.append((self.data.datetime.datetime().hour, self.data.close[0], self.data.volume[0]))
engine = backtrader.Cerebro()
engine.adddata(backtrader.feeds.GenericCSVData(
    dataname='BTC_USDT-1h.csv', timeframe=backtrader.TimeFrame.Minutes, compression=60))
engine.addstrategy(Look)
engine.run()
assert seen == [(12, 103, 8), (13, 103.9, 1.8), (14, 106, 5), (15, 106, 0)], seen`,
  vectorbt: `
import pandas, vectorbt
bars = pandas.read_csv('BTC_USDT-30m.csv', index_col='Date', parse_dates=['Date'])
assert str(bars.index.tz) in ('UTC', 'utc', 'UTC+00:00'), bars.index
folio = vectorbt.Portfolio.from_holding(bars['Close'], freq='30min')
assert abs(folio.total_return() - (106 / 101 - 1)) < 1e-9, folio.total_return()`,
  hftbacktest: `
import numpy
from hftbacktest import BacktestAsset, HashMapMarketDepthBacktest
from hftbacktest.data import validate_event_order
from hftbacktest.types import event_dtype
feed = numpy.load('BTC_USDT.npz')['data']
assert feed.dtype == event_dtype, feed.dtype
validate_event_order(feed)
asset = (BacktestAsset().data('BTC_USDT.npz').linear_asset(1.0)
    .constant_order_latency(0, 0).risk_adverse_queue_model().no_partial_fill_exchange()
    .trading_value_fee_model(0.0, 0.0).tick_size(0.01).lot_size(0.00000001))
run = HashMapMarketDepthBacktest([asset])
run.elapse(700 * 10**9)
book = run.depth(0)
assert (book.best_bid, book.best_ask, book.best_bid_qty) == (100, 101, 2), book.best_bid
assert book.ask_qty_at_tick(10300) == 9 and book.bid_qty_at_tick(9900) == 0
run.close()`,
};

/** @returns a line for each program: that it reads the files, or that it is not here */
export function readByTool(dir: string): readonly string[] {
  const python = process.env.TAPEKEEP_TEST_PYTHON ?? 'python3';
  return Object.entries(READERS).map(([tool, script]) => {
    const look = `import importlib.util, sys; sys.exit(0 if importlib.util.find_spec('${tool}') else 3)`;
    if (spawnSync(python, ['-c', look]).status !== 0) {
      return `not checked by ${tool} itself: it is not installed`;
    }
    const { status, stderr } = spawnSync(python, ['-c', script], { cwd: dir, encoding: 'utf8' });
    assert.equal(status, 0, `${tool} reads something else: ${stderr}`);
    return `read by ${tool} itself`;
  });
}
