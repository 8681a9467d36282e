import assert from 'node:assert/strict';
import { join } from 'node:path';
import test from 'node:test';
import fc from '../support/properties.js';
import { readSources } from '../support/repository/imports.js';
import { repositoryPath } from '../support/repository/repository.js';
import { runSeed } from '../support/seeds.js';

/** A run draws the same as the one before it: no test takes a seed of its own. */

test('properties take the seed of the run, and its processes inherit it', () => {
  const failed = fc.check(
    fc.property(fc.integer(), () => false),
    { numRuns: 1 },
  );
  assert.equal(failed.seed, runSeed);
  assert.equal(process.env.TEST_RUN_SEED, String(runSeed));
});

test('tests draw at random by that seed only', () => {
  const sources = [...readSources(join(repositoryPath, 'test'))];
  const draws = sources.filter(([, text]) => /Math\.random\(|from 'fast-check'/.test(text));
  const paths = draws.map(([path]) => path).filter((path) => !/^unit\/(rooms|seeds)\./.test(path));
  assert.deepEqual(paths, ['support/properties.ts', 'support/seeds.ts']);
});
