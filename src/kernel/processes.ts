import { readFile } from 'node:fs/promises';
import { codeOf } from './errors.js';

/** Returns true if a process of this id exists, of any owner. */
export function isAlive(pid: number): boolean {
  if (!Number.isInteger(pid) || pid < 1) return false;
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return codeOf(error) === 'EPERM';
  }
}

/** Fields of Linux about a process, from its state on: the fields before may hold spaces. */
async function statOf(pid: number): Promise<string[]> {
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => '');
  return stat.slice(stat.lastIndexOf(')') + 2).split(' ');
}

/** Ended, but not yet collected by its parent: in a container, an orphan may stay so for ever. */
export async function isZombie(pid: number): Promise<boolean> {
  return (await statOf(pid))[0] === 'Z';
}

/** The process that started this one, or took it over; undefined where the system does not say (not Linux). */
export async function parentOf(pid: number): Promise<number | undefined> {
  const parent = (await statOf(pid))[1];
  return parent === undefined ? undefined : Number(parent);
}

/**
 * Distinguishes this use of a process id from an earlier one, where the system allows it
 * (Linux: boot id and start time), else an empty text. Ids are reused: in a container, after every
 * restart.
 */
export async function birthOf(pid: number): Promise<string> {
  const startTicks = (await statOf(pid))[19];
  const bootId = await readFile('/proc/sys/kernel/random/boot_id', 'utf8').catch(() => '');
  return startTicks === undefined || bootId === '' ? '' : `${bootId.trim()}/${startTicks}`;
}
