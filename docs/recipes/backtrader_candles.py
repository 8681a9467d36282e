"""Runs a strategy of backtrader over candles. Needs backtrader, pandas and pyarrow.

python backtrader_candles.py candles.parquet 60   (length of a candle in minutes)
"""

import sys

import backtrader
import pandas


class Watch(backtrader.Strategy):
    """Prints every bar; replace it by a strategy."""

    def next(self):
        bar = self.data
        print(f"{bar.datetime.datetime():%Y-%m-%dT%H:%M:%SZ},{bar.close[0]},{bar.volume[0]}")


source, minutes = sys.argv[1:]
FIGURES = ["open", "high", "low", "close", "volume"]
candles = pandas.read_parquet(source).set_index("open_at")[FIGURES].astype(float)
# backtrader takes times without a zone for UTC.
candles.index = candles.index.tz_localize(None)
engine = backtrader.Cerebro()
engine.adddata(
    backtrader.feeds.PandasData(
        dataname=candles, timeframe=backtrader.TimeFrame.Minutes, compression=int(minutes)
    )
)
engine.addstrategy(Watch)
engine.run()
