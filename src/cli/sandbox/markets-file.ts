import { readYamlFile } from '../../config/yaml-file.js';
import { messageOf } from '../../kernel/errors.js';
import { readMarket } from '../../sandbox/live/live-markets.js';
import type { LiveMarketDescription } from '../../sandbox/live/market-description.js';
import { UsageError } from '../failure.js';

const OPTION = '--markets-file';

function listOf(document: unknown): readonly unknown[] | undefined {
  if (Array.isArray(document)) return document;
  if (document === null || typeof document !== 'object') return undefined;
  const { markets, ...others } = document as { readonly markets?: unknown };
  return Array.isArray(markets) && Object.keys(others).length === 0 ? markets : undefined;
}

/**
 * Reads a YAML or JSON file of markets: a list of names and of descriptions, or the same below the
 * key `markets`.
 *
 * @throws UsageError naming the entry, the field, its value and what is allowed
 */
export function readMarketsFile(path: string): LiveMarketDescription[] {
  let document: unknown;
  try {
    document = readYamlFile(path);
  } catch (error) {
    throw new UsageError(OPTION, path, `it can not be read: ${messageOf(error)}`);
  }
  const list = listOf(document);
  if (list === undefined || list.length === 0) {
    throw new UsageError(OPTION, path, 'it must hold a list of markets, or {markets: [...]}');
  }
  return list.map((entry, index) => {
    try {
      return readMarket(entry);
    } catch (error) {
      throw new UsageError(OPTION, path, `entry ${index + 1}: ${messageOf(error)}`);
    }
  });
}
