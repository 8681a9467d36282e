import { randomBytes } from 'node:crypto';
import { isAlive } from '../../kernel/processes.js';
import { birthOf } from './processes.js';

/**
 * A process that does something, for others to see whether it still does: its id, what tells this life
 * of the id from an earlier one, and a token that tells uses by the same process apart.
 */
export interface Life {
  readonly pid: number;
  /** Empty where the system does not tell. */
  readonly birth: string;
  readonly token: string;
}

/** A life of this process. */
interface OwnLife extends Life {
  /** From here on it counts as over. */
  end(): void;
}

const ownTokens = new Set<string>();
const NO_BIRTH = '-';

/** Begins a life of this process. */
export async function beginLife(): Promise<OwnLife> {
  const token = randomBytes(6).toString('hex');
  const birth = await birthOf(process.pid);
  ownTokens.add(token);
  return { pid: process.pid, birth, token, end: () => ownTokens.delete(token) };
}

/** As text without spaces at its ends or anything that a file name must not have. */
export function lifeText({ pid, birth, token }: Life): string {
  return `${pid} ${birth === '' ? NO_BIRTH : birth.replaceAll('/', '_')} ${token}`;
}

/** Undefined when the text is none of {@link lifeText}; that of earlier versions had no token. */
export function readLife(text: string): Life | undefined {
  const [, pid, birth = NO_BIRTH, token = ''] =
    /^(\d{1,10})(?: (\S+))?(?: ([0-9a-f]+))?\n?$/.exec(text) ?? [];
  if (pid === undefined) return undefined;
  return { pid: Number(pid), birth: birth === NO_BIRTH ? '' : birth, token };
}

/** Whether the process still lives and has not ended this life of its own accord. */
export async function isLived({ pid, birth, token }: Life): Promise<boolean> {
  // Our own id: it is ours, or of an earlier process that had the same.
  if (pid === process.pid) return ownTokens.has(token);
  if (!isAlive(pid)) return false;
  return birth === '' || birth.replaceAll('/', '_') === (await birthOf(pid)).replaceAll('/', '_');
}
