import { execFile } from 'node:child_process';
import { promisify } from 'node:util';

/** Programs in Python: run where there is one with their packages, `python3` or the one that TAPEKEEP_TEST_PYTHON names. */
export const PYTHON = process.env.TAPEKEEP_TEST_PYTHON ?? 'python3';

/** Nothing is written beside the scripts. */
const QUIET = { PYTHONDONTWRITEBYTECODE: '1' };

const execute = promisify(execFile);

/** Runs Python. @returns what it printed */
export const python = async (
  cwd: string,
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
): Promise<string> =>
  (await execute(PYTHON, [...args], { cwd, env: { ...process.env, ...env, ...QUIET } })).stdout;

/** Returns whether that Python has all of some packages. */
export async function hasPackages(names: readonly string[]): Promise<boolean> {
  const script =
    'import importlib.util as u, sys; sys.exit(any(u.find_spec(one) is None for one in sys.argv[1:]))';
  return await python('.', ['-c', script, ...names]).then(
    () => true,
    () => false,
  );
}
