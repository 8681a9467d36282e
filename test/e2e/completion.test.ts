import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import test from 'node:test';
import { Program } from '../support/programs/program.js';

async function scriptOf(shell: string): Promise<string> {
  const program = new Program(['completion', shell]);
  assert.equal((await program.ended()).code, 0, program.dump());
  return `${program.text('stdout')}\n`;
}

/** What a shell runs to print what is offered for the last of some words. */
const QUESTIONS = {
  bash: (script: string, line: string, last: number) => `${script}
COMP_WORDS=(${line}); COMP_CWORD=${last}; _tapekeep; printf '%s\\n' "\${COMPREPLY[@]}"`,
  zsh: (script: string, line: string, last: number) => `autoload -Uz compinit; compinit -u -D
${script}
emulate sh; COMP_WORDS=(${line}); COMP_CWORD=${last}; _tapekeep; printf '%s\\n' "\${COMPREPLY[@]}"`,
  fish: (script: string, line: string) => `${script}
complete -C "${line.replaceAll("'", '')}" | string replace -r '\\t.*' ''`,
} as const;

/** What a shell offers for the last of the words; undefined where the shell is not installed. */
function offered(shell: keyof typeof QUESTIONS, script: string, words: readonly string[]) {
  const line = words.map((word) => `'${word}'`).join(' ');
  const bare = shell === 'fish' ? ['--no-config'] : shell === 'zsh' ? ['-f'] : ['--norc'];
  const ask = QUESTIONS[shell](script, line, words.length - 1);
  const { stdout, error, stderr } = spawnSync(shell, [...bare, '-c', ask], { encoding: 'utf8' });
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
  assert.ok(ask('start', '')?.includes('--for'));
  assert.deepEqual(ask('gaps', 'list', '--state', 'open,f'), ['open,filling']);
  assert.deepEqual(ask('gaps', 'list', '--state', '=', 'f'), ['filling']);
});

for (const shell of ['bash', 'zsh', 'fish'] as const) {
  test(`${shell} completes a value as one of its words, else as a file`, async (t) => {
    const script = await scriptOf(shell);
    const ask = (...words: string[]) =>
      offered(shell, script, ['tapekeep', ...words])?.sort() ?? [];
    if (offered(shell, script, ['tapekeep', '']) === undefined)
      return t.skip(`${shell} is not installed here`);
    assert.deepEqual(ask('gaps', 'list', '--state', ''), ['filling', 'open', 'unfillable']);
    assert.deepEqual(ask('gaps', '--state', 'open,'), ['open,filling', 'open,unfillable']);
    // What does not begin as the word does is left out by zsh when it takes the offer.
    const begun = (word: string) => ask('gaps', word).filter((one) => one.startsWith(word));
    assert.deepEqual(begun('--state=f'), ['--state=filling']);
    assert.deepEqual(begun('--state=open,u'), ['--state=open,unfillable']);
    assert.deepEqual(ask('completion', ''), ['bash', 'fish', 'zsh']);
    assert.deepEqual(ask('export', '--candles', ''), ['exchange', 'trades']);
    assert.ok(ask('gaps', '--').includes('--limit'));
    assert.ok(ask('help', '').includes('quarantine'));
    assert.deepEqual(ask('gaps', 'help', ''), ['explain', 'fill', 'list', 'note']);
    // For what is not a word, bash and zsh complete files when nothing is offered; fish offers them.
    const files = shell === 'fish' ? ['package-lock.json', 'package.json'] : [''];
    assert.deepEqual(ask('export', '--out', 'package'), files);
    assert.deepEqual(ask('--config', 'package'), files);
  });
}

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
