import { buildApiProgram } from '../api/program.js';
import type { ExitCode } from '../exit-codes.js';
import type { CommonOptions } from '../opening/session.js';

/** Runs `tapekeep api ARGS`. A part of its own, so that no other command waits for the contract. */
export async function apiCommand(
  args: readonly string[],
  common: CommonOptions,
  finish: (code: ExitCode) => void,
): Promise<void> {
  await buildApiProgram(common, finish).parseAsync([...args], { from: 'user' });
}
