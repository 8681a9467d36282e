import type { EndpointName, ParamsOf } from '../../contract/endpoints.js';
import { type ApiOptions, openApi, openApiSession } from '../api/access.js';
import { explained } from '../api/advice.js';
import { printRejected, printResult, UnreadableRowsError } from '../api/output.js';
import { hasRows } from '../api/rows.js';
import { fixTimes } from '../api/times.js';
import { EXIT_CODES, type ExitCode } from '../exit-codes.js';

export interface CallOptions extends ApiOptions {
  /** Uses the signed form of a public endpoint. */
  readonly post?: boolean;
}

/**
 * Calls one endpoint once and prints what it answers.
 *
 * @throws UnreadableRowsError when the answer has rows and none of them fits the contract
 * @param given parameters as the command line has them; their times may be relative to now
 */
export async function callCommand<N extends EndpointName>(
  name: N,
  given: Readonly<Record<string, unknown>>,
  options: CallOptions,
): Promise<ExitCode> {
  const isSigned = options.post === true;
  const session = openApiSession(options);
  const { account } = session.config;
  const access = openApi(session, name, isSigned);
  try {
    const params = (await fixTimes(given, access)) as ParamsOf<N>;
    const reply = await access.client.call(name, params, { form: isSigned ? 'post' : 'get' });
    if (reply.rejected.length > 0 && !hasRows(name, reply.data)) {
      const secrets = [account.key, account.secret].filter((text) => text !== null);
      throw new UnreadableRowsError(name, reply.rejected, secrets);
    }
    printResult(name, reply.data, options.json === true);
    printRejected(reply.rejected);
  } catch (error) {
    throw await explained(error, { name, params: given }, access.client);
  } finally {
    await access.close();
  }
  return EXIT_CODES.ok;
}
