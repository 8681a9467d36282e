import fc from 'fast-check';
import { runSeed } from './seeds.js';

/** The library of property tests, with the seed of the run in place of one of its own. */
fc.configureGlobal({ seed: runSeed });

export default fc;
