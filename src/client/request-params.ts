import {
  type Endpoint,
  type EndpointName,
  endpointNames,
  endpoints,
  type ParamsOf,
} from '../contract/endpoints.js';
import { describeIssues } from '../contract/shape.js';
import { InvalidParameterError, safeExcerpt } from './errors.js';

/** Parameters of a request, checked and with their defaults. */
export type RequestParams = Readonly<Record<string, unknown>>;

/** Made once: zod compiles a schema on its first use, which costs more than a whole page of rows. */
const SCHEMAS = Object.fromEntries(
  endpointNames.map((name) => [name, endpoints[name].params.strict()]),
) as Readonly<Record<EndpointName, ReturnType<Endpoint['params']['strict']>>>;

/**
 * Checks parameters against the table and fills in defaults.
 *
 * @throws InvalidParameterError naming the field and the value
 */
export function checkParams<N extends EndpointName>(name: N, given: ParamsOf<N>): RequestParams {
  const checked = SCHEMAS[name].safeParse(given);
  if (checked.success) return checked.data;
  const fields = checked.error.issues.slice(0, 5).flatMap((issue) => issue.path.slice(0, 1));
  const values = fields.map((field) => {
    const value = (given as Record<PropertyKey, unknown>)[field];
    return `${String(field)} = ${safeExcerpt(JSON.stringify(value) ?? String(value))}`;
  });
  throw new InvalidParameterError(name, `${describeIssues(checked.error)} (${values.join(', ')})`);
}
