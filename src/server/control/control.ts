import type { FastifyInstance } from 'fastify';
import type { Backend } from '../backend.js';
import type { Interference } from '../faults.js';
import type { PlayedBackend } from './clock-control.js';
import { addFaultsControl } from './faults-control.js';
import type { ChangeableBackend } from './market-control.js';
import { addMarketsControl } from './markets-control.js';
import { addReplayControl } from './replay-control.js';
import { addTruthControl } from './truth-control.js';

interface SteeredServer {
  readonly backend: Backend;
  readonly interference?: Interference;
  readonly control?: boolean;
}

function isChangeable(backend: Backend): backend is ChangeableBackend {
  return (backend as Partial<ChangeableBackend>).marketControl !== undefined;
}

function isPlayed(backend: Backend): backend is PlayedBackend {
  return (backend as Partial<PlayedBackend>).clockControl !== undefined;
}

/** The markets of a backend that gets no others; undefined where some may come. */
export function marketsForGood(backend: Backend): readonly string[] | undefined {
  if (isChangeable(backend) && backend.marketControl.isOpen) return undefined;
  const markets = backend.markets();
  return markets instanceof Promise ? undefined : markets.map(({ name }) => name);
}

/**
 * The paths below `/sandbox/` that steer the served exchange and tell its secrets, as far as it has
 * what they steer. Without `control` there are none of them; those of a recording, below `/replay/`,
 * then say so.
 */
export function addControl(app: FastifyInstance, server: SteeredServer): void {
  if (isPlayed(server.backend)) {
    addReplayControl(app, server.backend.clockControl, server.control === true);
  }
  if (server.control !== true) return;
  addTruthControl(app, server.backend);
  const faults = server.interference?.control;
  if (faults !== undefined) addFaultsControl(app, faults, () => marketsForGood(server.backend));
  if (isChangeable(server.backend)) addMarketsControl(app, server.backend.marketControl);
}
