import type { PagedEndpoint, SinceMode } from './api-completeness.js';
import type { Runner } from './database.js';

type SinceModes = Partial<Record<PagedEndpoint, SinceMode>>;

const READ_MODES = 'SELECT since_modes AS modes FROM archive';
const REMEMBER_MODE = `
  UPDATE archive SET since_modes = since_modes || jsonb_build_object($1::text, $2::text)`;

/** Empty as well while the archive belongs to no exchange. */
export async function readSinceModes(runner: Runner): Promise<SinceModes> {
  const [row] = await runner.rows<{ modes: SinceModes }>(READ_MODES);
  return row?.modes ?? {};
}

/** Of an archive that belongs to no exchange yet nothing is remembered: it is found out again. */
export async function rememberSinceMode(
  runner: Runner,
  endpoint: PagedEndpoint,
  mode: SinceMode,
): Promise<void> {
  await runner.rows(REMEMBER_MODE, [endpoint, mode]);
}
