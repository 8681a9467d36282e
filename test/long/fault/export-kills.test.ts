import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { mkdir, readdir, readFile, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import test, { before, type TestContext } from 'node:test';
import { messageOf } from '../../../src/kernel/errors.js';
import { hashText } from '../../../src/kernel/random.js';
import { runCommand } from '../../support/programs/commands.js';
import { preloadAddress } from '../../support/programs/plain-child.js';
import { Program } from '../../support/programs/program.js';
import { drawsOfRun, worlds } from '../../support/seeds.js';
import { mountSmallDisk } from '../../support/small-disk.js';
import { openAnalystWorld } from '../../support/worlds/analyst-world.js';
import { makeFolder } from '../../support/worlds/export-world.js';

/**
 * Exports that die at any step that changes a file. Under a final name there is never a file that is
 * not whole, a manifest never describes what is not there, and the next export takes the remains away.
 */
const KILLS = worlds(1);
const PRELOAD = preloadAddress(
  join(import.meta.dirname, '../../support/programs/fs-steps-child.ts'),
);
const MANIFEST = '.manifest.json';

const SPAN = ['--from', '2026-01-15T12:00:00Z', '--to', '2026-01-15T16:00:00Z', '--allow-gaps'];
const toFile = (name: string, ...more: readonly string[]) => ({
  ...{ name, args: ['--kind', 'trades', '--out', `DIR/${name}`, ...more] },
});
const EXPORTS = [
  toFile('a.csv'),
  toFile('a.ndjson'),
  toFile('a.parquet'),
  toFile('apart.csv', '--manifest', `DIR/apart/apart.csv${MANIFEST}`),
];

interface World {
  readonly url: string;
  readonly dir: string;
  readonly args: readonly string[];
  readonly name: string;
}

function start({ url, dir, args }: World, steps: string, more: readonly string[] = []): Program {
  const all = ['export', '--market', 'BTC_USDT', ...SPAN, ...args, ...more];
  const env = {
    ...{ TAPEKEEP_DATABASE_URL: url, NODE_OPTIONS: `--import=${PRELOAD}`, FS_STEPS: steps },
  };
  return new Program(
    all.map((arg) => arg.replace('DIR', dir)),
    { env },
  );
}

/** Paths below the folder, hidden ones and folders as well. */
async function pathsIn(dir: string): Promise<string[]> {
  const all = await readdir(dir, { recursive: true, withFileTypes: true });
  return all.map((one) => join(one.parentPath, one.name).slice(dir.length + 1)).sort();
}

async function emptyFolder({ dir, name }: World): Promise<void> {
  await rm(dir, { recursive: true, force: true });
  await mkdir(join(dir, name.includes('apart') ? 'apart' : ''), { recursive: true });
}

const isScratch = (path: string) => path.split('/').some((part) => part.startsWith('.tapekeep-'));
const manifestOf = ({ dir, name }: World) =>
  join(dir, name.startsWith('apart') ? 'apart' : '', `${name}${MANIFEST}`);

interface Found {
  readonly isThere: boolean;
  readonly hasManifest: boolean;
}

/**
 * What stands under the final names is whole and true.
 *
 * @param lengths of files that undisturbed exports wrote there; their texts differ by nothing but times
 */
async function assertHonest(world: World, lengths: ReadonlySet<number>): Promise<Found> {
  const { dir, name } = world;
  const file = await readFile(join(dir, name)).catch(() => undefined);
  const text = await readFile(manifestOf(world), 'utf8').catch(() => undefined);
  if (file !== undefined) assert.ok(lengths.has(file.length), `${name} is not whole`);
  if (text !== undefined) {
    const said = JSON.parse(text) as { sha256: string; bytes: number };
    assert.ok(file !== undefined, `a manifest describes ${name}, which is not there`);
    const sha256 = createHash('sha256').update(file).digest('hex');
    assert.deepEqual(
      [said.bytes, said.sha256],
      [file.length, sha256],
      `a manifest describes another ${name} than that which is there`,
    );
  }
  return { isThere: file !== undefined, hasManifest: text !== undefined };
}

async function assertClean(world: World, why: string): Promise<void> {
  const { dir, name } = world;
  const known = new Set([join(dir, name), manifestOf(world)]);
  const left = (await pathsIn(dir)).filter((path) => !known.has(join(dir, path)));
  const folders = new Set(['apart']);
  assert.deepEqual(
    left.filter((path) => !folders.has(path)),
    [],
    why,
  );
}

/** Steps of an undisturbed export, by number from one on. */
async function listSteps(t: TestContext, world: World, more: readonly string[]) {
  const program = start(world, 'list', more);
  t.after(() => program.dispose());
  assert.equal((await program.ended()).code, 0, program.dump());
  return program.lines.stderr
    .map((line) => /^step (\d+) (\w+)$/.exec(line))
    .flatMap((found) => (found === null ? [] : [{ number: Number(found[1]), name: found[2] }]));
}

async function killAt(t: TestContext, world: World, at: number, more: readonly string[]) {
  const program = start(world, `SIGKILL:${at}`, more);
  t.after(() => program.dispose());
  const { signal } = await program.ended();
  assert.equal(signal, 'SIGKILL', `step ${at} never came\n${program.dump()}`);
}

/** Where all steps around a final name are tried; those of the others are drawn. */
const WHOLLY_TRIED: ReadonlySet<string> = new Set(['a.csv', 'apart.csv']);

let url = '';
before(async () => {
  ({ url } = await openAnalystWorld('file'));
});

for (const { name, args } of EXPORTS) {
  test(`killed at any step: ${args.slice(0, 2).join(' ')} → ${name}`, async (t) => {
    const world = { url, dir: await makeFolder(t), args, name };
    const random = drawsOfRun(t, hashText(name));
    const ask = (...more: string[]) => {
      const all = ['export', '--market', 'BTC_USDT', ...SPAN, ...args, ...more];
      const inDir = all.map((arg) => arg.replace('DIR', world.dir));
      return runCommand(inDir, { TAPEKEEP_DATABASE_URL: url });
    };
    await emptyFolder(world);
    const steps = await listSteps(t, world, []);
    const lengths = new Set([(await stat(join(world.dir, name))).size]);
    await assertClean(world, 'after an undisturbed export');
    const first = steps.findIndex((one) => one.name === 'mkdtemp') + 1;
    assert.ok(first > 0, 'steps are really counted');

    const crucial = steps.flatMap(({ number, name: word }) => (word === 'rename' ? [number] : []));
    const last = (crucial.at(-1) ?? 0) + 1;
    const draw = (from: number, to: number) => from + Math.floor(random() * (to - from));
    const isWhole = WHOLLY_TRIED.has(name);
    const drawn = Array.from({ length: KILLS }, () => draw(first, crucial[0] ?? 0));
    const around = isWhole ? [...crucial, last] : [draw(crucial[0] ?? 0, last + 1)];
    let between = 0;
    for (const isReplaced of isWhole ? [false, true] : [draw(0, 2) === 1]) {
      for (const at of new Set([...drawn, ...around])) {
        if (!isReplaced) await emptyFolder(world);
        const more = isReplaced ? ['--force'] : [];
        const told = `killed at step ${at} of ${steps.length} (${steps[at - 1]?.name})${more.join()}`;
        await killAt(t, world, at, more);
        const found = await assertHonest(world, lengths).catch((error: unknown) => {
          throw new Error(`${told}: ${messageOf(error)}`);
        });
        if (found.isThere && !found.hasManifest) between += 1;
        const plain = await ask();
        assert.equal(plain.code, found.isThere ? 2 : 0, `${told}: ${plain.err}`);
        if (found.isThere) assert.match(plain.err, /there already.*--force replaces it/);
        const forced = await ask('--force');
        assert.equal(forced.code, 0, `${told}: ${forced.err}`);
        lengths.add((await stat(join(world.dir, name))).size);
        assert.deepEqual(await assertHonest(world, lengths), { isThere: true, hasManifest: true });
        await assertClean(world, told);
      }
    }
    if (isWhole) assert.ok(between > 0, 'some died between the file and its manifest');
  });
}

test('a signal at any step ends an export without a trace', async (t) => {
  const random = drawsOfRun(t);
  const below = (limit: number) => Math.floor(random() * limit);
  const { name, args } = EXPORTS[below(EXPORTS.length)] ?? assert.fail('nothing to export');
  const world = { url, dir: await makeFolder(t), args, name };
  await emptyFolder(world);
  const steps = await listSteps(t, world, []);
  const length = (await stat(join(world.dir, name))).size;
  await emptyFolder(world);
  const from = steps.findIndex((one) => one.name === 'mkdtemp') + 2;
  const program = start(world, `SIGTERM:${from + below(steps.length - from)}`);
  t.after(() => program.dispose());
  const { code } = await program.ended();
  const { isThere, hasManifest } = await assertHonest(world, new Set([length]));
  // Behind the point of no return it is done.
  assert.equal(isThere, hasManifest, program.dump());
  assert.equal(code, isThere ? 0 : 130, program.dump());
  assert.ok(
    (await pathsIn(world.dir)).every((path) => !isScratch(path)),
    program.dump(),
  );
});

test('a full target is named, nothing is left there, and the same works once there is room', async (t) => {
  const disk = await mountSmallDisk(t, 1);
  if (disk === undefined) return;
  const { path: dir } = disk;
  await mkdir(join(dir, 'apart'));
  await disk.fill();
  const exportAll = async (check: (world: World, code: number | null, err: string) => unknown) => {
    for (const { name, args } of EXPORTS) {
      const all = ['export', '--market', 'BTC_USDT', ...SPAN, ...args];
      const inDir = all.map((arg) => arg.replace('DIR', dir));
      const { code, err } = await runCommand(inDir, { TAPEKEEP_DATABASE_URL: url });
      await check({ url, dir, args, name }, code, `${name}: ${err}`);
    }
  };
  await exportAll(async (_world, code, err) => {
    assert.equal(code, 1, err);
    assert.match(err, /no space is left for /);
    const left = (await pathsIn(dir)).filter((path) => !/^(fill|apart)$/.test(path));
    assert.deepEqual(left, [], err);
  });
  await disk.free();
  await exportAll(async (world, code, err) => {
    assert.equal(code, 0, err);
    const { size } = await stat(join(dir, world.name));
    const found = await assertHonest(world, new Set([size]));
    assert.deepEqual(found, { isThere: true, hasManifest: true });
  });
});
