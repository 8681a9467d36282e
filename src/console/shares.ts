import { z } from 'zod';
import { type Holders, sharesWithoutHolder } from '../store/index.js';

/** Shares of the markets in the status document, where several daemons divide the markets. */
export const SHARES = z
  .object({
    of: z.number().int().min(2),
    held: z.array(z.string()).describe('collected by a daemon, such as 2/3'),
    idle: z.array(z.string()).describe('collected by none'),
  })
  .nullable()
  .describe('of the markets, where several daemons divide them; else null');

type Shares = z.infer<typeof SHARES>;

/** Shares with and without a daemon; null where one daemon collects all markets. */
export function sharesOf(holders: Holders): Shares {
  const { shares: of } = holders;
  if (of === 1) return null;
  const idle = sharesWithoutHolder(holders).map(String);
  const all = Array.from({ length: of }, (_, at) => `${at + 1}/${of}`);
  return { of, held: all.filter((share) => !idle.includes(share)), idle };
}

/** Says which shares of the markets no daemon collects; undefined: each has one. */
export function idleText(shares: Shares): string | undefined {
  if (shares === null || shares.idle.length === 0) return undefined;
  return `no daemon collects share ${shares.idle.join(', ')} of the markets`;
}
