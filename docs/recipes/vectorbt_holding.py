"""Makes candles of trades, and the return of holding, by vectorbt. Needs vectorbt, pandas and pyarrow.

python vectorbt_holding.py trades.parquet 30min

A slot without trades gets the close before. Export a time range without gaps: in a gap nothing is known.
"""

import sys

import pandas
import vectorbt

source, length = sys.argv[1:]
trades = pandas.read_parquet(source).set_index("traded_at")
slots = trades.astype({"price": float, "amount": float}).resample(length)
candles = slots["price"].ohlc()
candles["close"] = candles["close"].ffill()
for name in ("open", "high", "low"):
    candles[name] = candles[name].fillna(candles["close"])
candles["volume"] = slots["amount"].sum()
held = vectorbt.Portfolio.from_holding(candles["close"], freq=length)
print(f"candles {len(candles)}")
print(f"volume {candles['volume'].sum():.8f}")
print(f"return {held.total_return():.8f}")
