import { type ChildProcess, type SpawnOptions, spawn } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { messageOf } from '../../kernel/errors.js';

/** Environment of the server's processes: nothing of ours, so nothing of ours can leak there. */
export const MINIMAL_ENV: Readonly<Record<string, string>> = { PATH: '/usr/bin:/bin', LC_ALL: 'C' };

/** Most output of a child that is kept for an error message. */
const MAX_KEPT_OUTPUT = 16_384;

/** A program with its arguments, and the OS account to run it as (undefined: our own). */
export interface Command {
  readonly file: string;
  readonly args: readonly string[];
  readonly uid?: number;
  readonly gid?: number;
}

export interface Finished {
  /** Exit code; null when it could not be started or was killed. */
  readonly code: number | null;
  /** Both output streams, the newest part. */
  readonly output: string;
}

export function accountOptions(command: Command): Pick<SpawnOptions, 'uid' | 'gid'> {
  return {
    ...(command.uid === undefined ? {} : { uid: command.uid }),
    ...(command.gid === undefined ? {} : { gid: command.gid }),
  };
}

/** Collects the newest part of a child's output. The returned function reads it. */
export function collectOutput(child: ChildProcess, onText?: (text: string) => void): () => string {
  let output = '';
  const keep = (chunk: Buffer) => {
    const text = chunk.toString('utf8');
    output = (output + text).slice(-MAX_KEPT_OUTPUT);
    onText?.(text);
  };
  child.stdout?.on('data', keep);
  child.stderr?.on('data', keep);
  return () => output.trim();
}

/**
 * Runs a program to its end. Never rejects: a program that cannot start has a null code. An abort
 * asks it to end (SIGTERM); its end is awaited all the same.
 */
export function runToEnd(
  command: Command,
  env: Readonly<Record<string, string>>,
  onText?: (text: string) => void,
  signal?: AbortSignal,
): Promise<Finished> {
  return new Promise((resolve) => {
    let child: ChildProcess;
    try {
      child = spawn(command.file, [...command.args], {
        ...accountOptions(command),
        env: { ...env },
        cwd: '/',
        stdio: ['ignore', 'pipe', 'pipe'],
      });
    } catch (error) {
      resolve({ code: null, output: messageOf(error) });
      return;
    }
    const output = collectOutput(child, onText);
    const end = () => child.kill('SIGTERM');
    const finish = (finished: Finished) => {
      signal?.removeEventListener('abort', end);
      resolve(finished);
    };
    child.once('error', (error) => finish({ code: null, output: error.message }));
    child.once('close', (code) => finish({ code, output: output() }));
    if (signal?.aborted === true) end();
    else signal?.addEventListener('abort', end, { once: true });
  });
}

/** Ended, but not yet collected by its parent: in a container, an orphan may stay so for ever. */
export async function isZombie(pid: number): Promise<boolean> {
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => '');
  return stat.slice(stat.lastIndexOf(')') + 2).startsWith('Z');
}

/**
 * Distinguishes this use of a process id from an earlier one, where the system allows it
 * (Linux: boot id and start time), else an empty text. Ids are reused: in a container, after every
 * restart.
 */
export async function birthOf(pid: number): Promise<string> {
  try {
    const stat = await readFile(`/proc/${pid}/stat`, 'utf8');
    // The second field may itself hold spaces and brackets; the start time is the 22nd of all.
    const startTicks = stat.slice(stat.lastIndexOf(')') + 2).split(' ')[19] ?? '';
    const bootId = await readFile('/proc/sys/kernel/random/boot_id', 'utf8');
    return `${bootId.trim()}/${startTicks}`;
  } catch {
    return '';
  }
}

/** The version of the kernel; empty where it is not Linux. */
export async function kernelRelease(): Promise<string> {
  return (await readFile('/proc/sys/kernel/osrelease', 'utf8').catch(() => '')).trim();
}

/** The direct children of a process, where the system lists them (Linux). */
export async function childrenOf(pid: number): Promise<number[]> {
  const text = await readFile(`/proc/${pid}/task/${pid}/children`, 'utf8').catch(() => '');
  return text
    .trim()
    .split(/\s+/)
    .map(Number)
    .filter((child) => child > 0);
}

/** Sends a signal to a process that may be gone by now. False when it is, or is not ours. */
export function signalIfAlive(pid: number, signal: NodeJS.Signals): boolean {
  try {
    return process.kill(pid, signal);
  } catch {
    return false;
  }
}

/** False only where the system proves that the process is not a Postgres server. */
export async function mayBePostgres(pid: number): Promise<boolean> {
  try {
    return (await readFile(`/proc/${pid}/cmdline`, 'utf8')).includes('postgres');
  } catch {
    return true;
  }
}
