import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Instrumenter } from '@stryker-mutator/instrumenter';
import ts from 'typescript';
import { EQUIVALENTS } from './equivalents.js';

/** One change of one place of the source, as Stryker makes them. */
export interface Mutant {
  /** Stays the same while the text around the place changes. */
  readonly id: string;
  readonly room: string;
  /** Path below `src`. */
  readonly file: string;
  /** From 1. */
  readonly line: number;
  readonly mutator: string;
  readonly original: string;
  readonly replacement: string;
  readonly location: Found['location'];
}

type Found = Awaited<ReturnType<Instrumenter['instrument']>>['mutants'][number];

/**
 * Texts are left out. A whole SQL statement made empty is always caught, an empty message seldom
 * matters, and neither says anything about the tests.
 */
const OPTIONS = { plugins: null, excludedMutations: ['StringLiteral'], ignorers: [] };

const silent = () => undefined;
const off = () => false;
const instrumenter = new Instrumenter({
  ...{ trace: silent, debug: silent, info: silent, warn: silent, error: silent, fatal: silent },
  ...{ isTraceEnabled: off, isDebugEnabled: off, isInfoEnabled: off },
  ...{ isWarnEnabled: off, isErrorEnabled: off, isFatalEnabled: off },
});

const hashOf = (text: string) => createHash('sha1').update(text).digest('hex');

/** Every mutant of the rooms' files, in no particular order. */
export async function findMutants(
  src: string,
  rooms: Readonly<Record<string, readonly string[]>>,
): Promise<Mutant[]> {
  const paths = readdirSync(src, { recursive: true, encoding: 'utf8' })
    .filter((path) => path.endsWith('.ts'))
    .sort();
  const mutants: Mutant[] = [];
  for (const [room, parts] of Object.entries(rooms)) {
    for (const file of paths.filter((path) => parts.some((part) => path.startsWith(part)))) {
      mutants.push(...(await mutantsOf(src, room, file)));
    }
  }
  return mutants;
}

async function mutantsOf(src: string, room: string, file: string): Promise<Mutant[]> {
  const content = readFileSync(join(src, file), 'utf8');
  const input = { name: join(src, file), content, mutate: true };
  const { mutants } = await instrumenter.instrument([input], OPTIONS);
  const seen = new Map<string, number>();
  return mutants
    .filter(({ status }) => status !== 'Ignored')
    .map(({ location, mutatorName: mutator, replacement = '' }) => {
      const original = content.slice(...offsetsOf(content, location));
      const key = [file, mutator, original, replacement].join('\0');
      const nth = seen.get(key) ?? 0;
      seen.set(key, nth + 1);
      const id = hashOf(`${key}\0${nth}`).slice(0, 8);
      const line = location.start.line + 1;
      return { id, room, file, line, mutator, original, replacement, location };
    });
}

/** Begin and end of a place in a text; Stryker counts lines and columns from 0. */
function offsetsOf(content: string, { start, end }: Mutant['location']): [number, number] {
  const lines = [0];
  for (let at = content.indexOf('\n'); at >= 0; at = content.indexOf('\n', at + 1)) {
    lines.push(at + 1);
  }
  const offset = (place: typeof start) => (lines[place.line] ?? content.length) + place.column;
  return [offset(start), offset(end)];
}

/**
 * A random sample, uniform over the mutants that compile and are not known to be equivalent. The
 * same seed picks the same mutants for as long as their own text stays.
 */
export function sampleOf(root: string, all: readonly Mutant[], size: number, seed: number) {
  const rank = new Map(all.map((mutant) => [mutant, hashOf(`${seed} ${mutant.id}`)]));
  const inOrder = [...all].sort((a, b) => ((rank.get(a) ?? '') < (rank.get(b) ?? '') ? -1 : 1));
  const others = inOrder.filter(({ id }) => !EQUIVALENTS.some((one) => one.id === id));
  const sample: Mutant[] = [];
  let tried = 0;
  while (sample.length < size && tried < others.length) {
    const next = others.slice(tried, tried + size - sample.length);
    tried += next.length;
    sample.push(...thatCompile(root, next));
  }
  return { sample, invalid: tried - sample.length, equivalent: all.length - others.length };
}

/**
 * The mutants that the compiler takes: what it refuses needs no test. It looks at one mutant of each
 * file at a time, because each look costs about as much as one at the whole program.
 */
function thatCompile(root: string, mutants: readonly Mutant[]): Mutant[] {
  const config = ts.readConfigFile(join(root, 'tsconfig.json'), ts.sys.readFile);
  const raw = config.config as object;
  const parsed = ts.parseJsonConfigFileContent({ ...raw, include: ['src'] }, ts.sys, root);
  const options = { ...parsed.options, noUnusedLocals: false, noUnusedParameters: false };
  const mutated = new Map<string, string>();
  let round = 0;
  const service = ts.createLanguageService({
    ...{ ...ts.sys, useCaseSensitiveFileNames: () => ts.sys.useCaseSensitiveFileNames },
    getCompilationSettings: () => options,
    getScriptFileNames: () => parsed.fileNames,
    getScriptVersion: (path) => (mutated.has(path) ? `${round}` : 'original'),
    getScriptSnapshot: (path) => {
      const text = mutated.get(path) ?? ts.sys.readFile(path);
      return text === undefined ? undefined : ts.ScriptSnapshot.fromString(text);
    },
    getDefaultLibFileName: ts.getDefaultLibFilePath,
  });
  const compiling = new Set<Mutant>();
  for (let rest = mutants; rest.length > 0; round += 1) {
    const firsts = new Map(rest.toReversed().map((mutant) => [mutant.file, mutant]));
    mutated.clear();
    for (const { file, location, replacement } of firsts.values()) {
      const path = join(root, 'src', file);
      const content = readFileSync(path, 'utf8');
      const [from, to] = offsetsOf(content, location);
      mutated.set(path, content.slice(0, from) + replacement + content.slice(to));
    }
    for (const mutant of firsts.values()) {
      const path = join(root, 'src', mutant.file);
      const errors =
        service.getSyntacticDiagnostics(path).length || service.getSemanticDiagnostics(path).length;
      if (errors === 0) compiling.add(mutant);
    }
    rest = rest.filter((mutant) => firsts.get(mutant.file) !== mutant);
  }
  return mutants.filter((mutant) => compiling.has(mutant));
}

/**
 * The files that hold mutants, each with switches for its own. A switch notes that it was reached,
 * and is turned by a variable of the environment that holds its id.
 *
 * @returns texts by path below `src`, and the id of each mutant's switch
 */
export async function instrument(src: string, sample: readonly Mutant[]) {
  const files = [...new Set(sample.map(({ file }) => file))].map((file) => ({
    name: file,
    content: readFileSync(join(src, file), 'utf8'),
    mutate: sample.filter((mutant) => mutant.file === file).map(({ location }) => location),
  }));
  const result = await instrumenter.instrument(files, OPTIONS);
  const placeOf = (file: string, { location, ...rest }: Pick<Found, 'location' | 'replacement'>) =>
    JSON.stringify([file, location, rest.replacement]);
  const ids = new Map(
    result.mutants.map((found) => [placeOf(found.fileName, found), found.id] as const),
  );
  const switches = new Map(
    sample.map((mutant) => [mutant, ids.get(placeOf(mutant.file, mutant)) ?? '']),
  );
  return { texts: new Map(result.files.map(({ name, content }) => [name, content])), switches };
}
