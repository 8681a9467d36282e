import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import test from 'node:test';
import { nodeFault } from '../../../src/cli/run.js';

test('a Node older than the package asks for is named, with what is needed', async () => {
  const { engines } = JSON.parse(await readFile('package.json', 'utf8'));
  assert.equal(
    nodeFault('18.20.8'),
    'tapekeep: this is Node 18.20.8, and Node 20.19 or newer is needed',
  );
  assert.equal(`>=${/Node (\S+) or newer/.exec(nodeFault('20.18.3') ?? '')?.[1]}`, engines.node);
  for (const version of ['20.19.0', '22.0.0', '24.21.0']) assert.equal(nodeFault(version), null);
});
