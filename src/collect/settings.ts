/**
 * What the collectors need to know from the configuration. The composition root passes the sections
 * of the same shape. All durations in milliseconds.
 */
export interface CollectSettings {
  /** Markets to collect; empty for all that the exchange lists. */
  readonly markets: readonly string[];
  readonly streams: {
    readonly markets: { readonly schedule: string; readonly max: number };
    readonly trades: {
      readonly enabled: boolean;
      readonly schedule: string;
      readonly exactTimes: boolean;
      /** How far back history is walked from the first start; 0 for not at all. */
      readonly history: number | 'all';
      readonly cacheMargin: number;
      /** How long the exchange is trusted to keep a trade at least. */
      readonly keptAtLeast: number;
    };
    readonly depth: {
      readonly enabled: boolean;
      readonly schedule: string;
      readonly levels: number;
    };
    readonly tickers: { readonly enabled: boolean; readonly schedule: string };
    readonly klines: {
      readonly enabled: boolean;
      readonly schedule: string;
      readonly intervalsS: readonly number[];
      readonly history: number;
      readonly grace: number;
      readonly rereads: number;
    };
    readonly states: { readonly enabled: boolean; readonly periodsS: readonly number[] };
  };
}
