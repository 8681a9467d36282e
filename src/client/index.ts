/** The client room: the contract spoken to an exchange, over HTTP and WebSocket. */
export type { TimeNotice } from '../contract/extensions.js';
export * from './errors.js';
export type {
  ActiveOrdersQuery,
  BookQuery,
  DepthQuery,
  ExchangeApi,
  HistoryQuery,
  HistoryResultQuery,
  KlineQuery,
} from './exchange-api.js';
export { createExchangeClient } from './exchange-api.js';
export {
  type CallOptions,
  type Credentials,
  DEFAULT_PRIORITY,
  type ExchangeClientOptions,
  type NonceStore,
  type ProxyAddress,
  type Reply,
  type RequestTurn,
} from './exchange-client.js';
export {
  createExchangeClock,
  type ExchangeClock,
  type ExchangeClockOptions,
  type ExchangeTimeSample,
  type LivedTime,
} from './exchange-clock.js';
export {
  defaultNonceFolder,
  NonceFile,
  NonceFileError,
  type NonceFileOptions,
  NonceLockedError,
  type NoncePlace,
} from './nonces.js';
export type { ReconnectingOptions } from './realtime/reconnecting.js';
export type {
  CloseReason,
  FeedRecord,
  StateEvent,
  StateFeed,
  StateFeedOptions,
} from './realtime/state-feed.js';
export { openStateFeed, StateFeeds, type StateFeedsOptions } from './realtime/state-feeds.js';
export {
  openTradeFeed,
  type TradeFeed,
  type TradeFeedEvent,
  type TradeFeedOptions,
} from './realtime/trade-feed.js';
export { ExchangeClient, type ExchangeClientSettings } from './standalone.js';
