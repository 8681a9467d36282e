"""Writes candles into the data folder of freqtrade. Needs pandas and pyarrow.

python freqtrade_candles.py candles.parquet BTC/USDT 1h user_data/data/myexchange

The file has the name, columns and types that freqtrade's feather handler reads. It was read back by pandas;
freqtrade itself was not run. freqtrade fills absent candles with the close before, over gaps as well.
"""

import sys
from pathlib import Path

import pandas

source, pair, timeframe, folder = sys.argv[1:]
FIGURES = ["open", "high", "low", "close", "volume"]
candles = pandas.read_parquet(source).rename(columns={"open_at": "date"})
# freqtrade computes with doubles: each is the one nearest to the decimal.
candles = candles[["date", *FIGURES]].astype(dict.fromkeys(FIGURES, float))
candles["date"] = candles["date"].dt.as_unit("ms")
target = Path(folder) / f"{pair.replace('/', '_')}-{timeframe}.feather"
target.parent.mkdir(parents=True, exist_ok=True)
candles.to_feather(target, compression="lz4", compression_level=9)
print(target)
