import type { RawData } from 'ws';
import { readServerFrame, type ServerFrame } from '../../contract/realtime.js';
import { stateRecord } from '../../contract/resources.js';
import { parseJson } from '../../kernel/json.js';
import type { FeedRecord } from './state-feed.js';

/** The result of a state.query: some servers leave the period out. */
export const queryResult = stateRecord.partial({ period: true });

/** A frame of the server; undefined when it is not JSON that can be read. */
export function parseFrame(data: RawData): ServerFrame | undefined {
  try {
    // Text of at most `maxFrameBytes`, valid UTF-8: ws has checked both.
    return readServerFrame(parseJson(String(data)));
  } catch {
    return undefined;
  }
}

/** A record with or without its period, as the feed tells it. */
export function asFeedRecord(
  record: Omit<FeedRecord, 'period'> & { period?: number | undefined },
): FeedRecord {
  return { ...record, period: record.period };
}
