import type { EndpointName, ParamsOf } from '../../contract/endpoints.js';
import { type ApiOptions, openApi, openApiSession } from '../api/access.js';
import { explained } from '../api/advice.js';
import { printRejected, printResult } from '../api/output.js';
import { fixTimes } from '../api/times.js';
import { EXIT_CODES, type ExitCode } from '../exit-codes.js';

export interface CallOptions extends ApiOptions {
  /** Uses the signed form of a public endpoint. */
  readonly post?: boolean;
}

/**
 * Calls one endpoint once and prints what it answers.
 *
 * @param given parameters as the command line has them; their times may be relative to now
 */
export async function callCommand<N extends EndpointName>(
  name: N,
  given: Readonly<Record<string, unknown>>,
  options: CallOptions,
): Promise<ExitCode> {
  const isSigned = options.post === true;
  const access = openApi(openApiSession(options), name, isSigned);
  try {
    const params = (await fixTimes(given, access)) as ParamsOf<N>;
    const reply = await access.client.call(name, params, { form: isSigned ? 'post' : 'get' });
    printResult(name, reply.data, options.json === true);
    printRejected(reply.rejected);
  } catch (error) {
    throw await explained(error, { name, params: given }, access.client);
  } finally {
    await access.close();
  }
  return EXIT_CODES.ok;
}
