import type { EndpointName, ParamsOf } from '../../contract/endpoints.js';
import { type ApiOptions, openApi, openApiSession } from '../api/access.js';
import { withAdvice } from '../api/advice.js';
import { printRejected, printResult, tolerateClosedOutput } from '../api/output.js';
import { EXIT_CODES, type ExitCode } from '../exit-codes.js';

export interface CallOptions extends ApiOptions {
  /** Uses the signed form of a public endpoint. */
  readonly post?: boolean;
}

/** Calls one endpoint once and prints what it answers. */
export async function callCommand<N extends EndpointName>(
  name: N,
  params: ParamsOf<N>,
  options: CallOptions,
): Promise<ExitCode> {
  const isSigned = options.post === true;
  const access = openApi(openApiSession(options), name, isSigned);
  try {
    const reply = await access.client.call(name, params, { form: isSigned ? 'post' : 'get' });
    tolerateClosedOutput();
    printResult(name, reply.data, options.json === true);
    printRejected(reply.rejected);
  } catch (error) {
    throw withAdvice(error);
  } finally {
    await access.close();
  }
  return EXIT_CODES.ok;
}
