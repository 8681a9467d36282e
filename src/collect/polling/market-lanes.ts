import type { Lane, Sign } from './lane.js';
import type { TradeSign } from './signs.js';

/** The walks over one market's trades, and what was told about the market. */
export class MarketLanes {
  readonly lanes: readonly Lane[];
  /** Last time that its state feed told of a trade, monotonic. */
  pushedAtMs = Number.NEGATIVE_INFINITY;
  /** Whether its state feed is connected. */
  isFollowed = false;

  /** @param lanes the one that stores a trade completest first */
  constructor(lanes: readonly Lane[]) {
    this.lanes = lanes;
  }

  /** The walk that stores a new trade with one request: the first one that works. */
  get fastest(): Lane | undefined {
    return this.lanes.find((lane) => !lane.isFailing) ?? this.lanes[0];
  }

  /** A walk failed with a certain sign of a trade: another one that works takes it over. */
  handOver(from: Lane): void {
    const { fastest } = this;
    if (fastest !== undefined && fastest !== from) fastest.traded ??= from.traded;
  }

  note(kind: TradeSign, sign: Sign): void {
    const { fastest } = this;
    for (const lane of this.lanes) {
      if (lane !== fastest) {
        if (kind === 'trade') lane.companionAtMs ??= sign.atMs;
      } else if (kind === 'trade') {
        lane.noteTrade(sign);
      } else {
        lane.suspected ??= sign;
      }
    }
  }
}
