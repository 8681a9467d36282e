import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import test from 'node:test';
import { Program } from '../support/programs/program.js';

async function scriptOf(shell: string): Promise<string> {
  const program = new Program(['completion', shell]);
  assert.equal((await program.ended()).code, 0, program.dump());
  return `${program.text('stdout')}\n`;
}

/** What a shell offers for the last of the words; undefined where the shell is not installed. */
function offered(shell: 'bash' | 'zsh', script: string, words: readonly string[]) {
  const line = words.map((word) => `'${word}'`).join(' ');
  const ask = `${script}
COMP_WORDS=(${line}); COMP_CWORD=${words.length - 1}; _tapekeep; printf '%s\\n' "\${COMPREPLY[@]}"`;
  const { stdout, error, stderr } = spawnSync(shell, ['-c', ask], { encoding: 'utf8' });
  if (error !== undefined) return undefined;
  assert.equal(stderr, '');
  return stdout.trim().split('\n');
}

test('bash completes commands, those below them, options and their words', async () => {
  const script = await scriptOf('bash');
  const ask = (...words: string[]) => offered('bash', script, ['tapekeep', ...words]);
  if (ask('') === undefined) assert.fail('bash is not installed here');
  assert.deepEqual(ask('qua'), ['quarantine']);
  assert.ok(ask('')?.includes('doctor'));
  assert.ok(ask('gaps', '')?.includes('explain'));
  assert.deepEqual(ask('gaps', 'fill', '--ag'), ['--again']);
  assert.deepEqual(ask('--log-format', ''), ['auto', 'json', 'pretty']);
  assert.deepEqual(ask('replay', '--as', 'k'), ['known']);
  assert.deepEqual(ask('start', 'nothing-like-it'), ['']);
});

test('each shell has a script that names every command, and an unknown shell is refused', async () => {
  const help = new Program(['--help']);
  await help.ended();
  const names = [...help.text('stdout').matchAll(/^ {2}([a-z]+)\b/gm)].map(
    ([, name]) => name ?? '',
  );
  assert.ok(names.length > 15);
  for (const shell of ['bash', 'zsh', 'fish']) {
    const script = await scriptOf(shell);
    for (const name of names) assert.ok(script.includes(name), `${shell}: ${name}`);
  }
  const wrong = new Program(['completion', 'csh']);
  assert.equal((await wrong.ended()).code, 2);
  assert.match(wrong.text('stderr'), /There is no shell "csh".*bash, zsh, fish/);
});
