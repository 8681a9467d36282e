import type { FastifyInstance, FastifyReply } from 'fastify';
import type { InterferenceControl } from '../faults.js';
import { CONTROL_PREFIX, readJson, showResult, steer } from './control-replies.js';

/** Largest fault script, bytes. */
const SCRIPT_MAX_BYTES = 256 * 1024;

/**
 * `/sandbox/faults` to read (GET), replace (PUT) and end (DELETE) what goes wrong. A script that is
 * not usable is refused, and the old one stays in force.
 *
 * @param markets those that rules may name; undefined where others may come
 */
export function addFaultsControl(
  app: FastifyInstance,
  control: InterferenceControl,
  markets: () => readonly string[] | undefined,
): void {
  const path = `${CONTROL_PREFIX}faults`;
  const show = (reply: FastifyReply) => showResult(reply, control.describe());
  app.get(path, (_request, reply) => show(reply));
  app.delete(path, (_request, reply) =>
    steer(reply, () => {
      control.clear();
      return control.describe();
    }),
  );
  app.put(path, { bodyLimit: SCRIPT_MAX_BYTES }, (request, reply) =>
    steer(reply, () => {
      control.replace(readJson(request), markets());
      return control.describe();
    }),
  );
}
