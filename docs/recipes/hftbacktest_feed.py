"""Makes a feed of trades and depth for hftbacktest. Needs hftbacktest, pandas and pyarrow.

python hftbacktest_feed.py trades.parquet depth.parquet feed.npz

Every event is seen 100 ms after it happened. Between two observations of the book nothing is known of it.
"""

import sys

import numpy
import pandas
from hftbacktest import BUY_EVENT, DEPTH_EVENT, EXCH_EVENT, LOCAL_EVENT, SELL_EVENT, TRADE_EVENT
from hftbacktest.data import validate_event_order
from hftbacktest.types import event_dtype

trades_file, depth_file, target = sys.argv[1:]
LATENCY_NS = 100_000_000
events = []
for row in pandas.read_parquet(trades_file).itertuples():
    at = row.traded_at if pandas.isna(row.executed_at) else row.executed_at
    side = BUY_EVENT if row.side == "buy" else SELL_EVENT
    events.append((at.as_unit("ns").value, TRADE_EVENT | side, float(row.price), float(row.amount)))

levels = {}
for row in pandas.read_parquet(depth_file).itertuples():
    at = row.observed_at.as_unit("ns").value
    seen = {(BUY_EVENT, float(p)): float(a) for p, a in zip(row.bid_prices, row.bid_amounts)}
    seen |= {(SELL_EVENT, float(p)): float(a) for p, a in zip(row.ask_prices, row.ask_amounts)}
    # First what is gone, so that a new level never meets an old one of the other side.
    changes = [(key, 0.0) for key in levels if key not in seen]
    changes += [(key, amount) for key, amount in seen.items() if levels.get(key) != amount]
    events += [(at, DEPTH_EVENT | side, price, amount) for (side, price), amount in changes]
    levels = seen

events.sort(key=lambda event: event[0])
feed = numpy.zeros(len(events), event_dtype)
feed["exch_ts"], feed["ev"], feed["px"], feed["qty"] = zip(*events)
feed["ev"] |= EXCH_EVENT | LOCAL_EVENT
feed["local_ts"] = feed["exch_ts"] + LATENCY_NS
validate_event_order(feed)
numpy.savez_compressed(target, data=feed)
