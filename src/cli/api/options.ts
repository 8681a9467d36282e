import { type EndpointName, endpoints } from '../../contract/endpoints.js';
import type { GivenTime } from './times.js';

/** A parameter of an endpoint as an option of the command line. */
export interface ApiOption {
  /** Name of the parameter, and of the value that commander hands out. */
  readonly param: string;
  /** `--last-id <number>` */
  readonly flags: string;
  readonly description: string;
  readonly isRequired: boolean;
  readonly choices: readonly string[] | undefined;
  /** Turns what was typed into what the contract takes; undefined: it takes the text. */
  readonly read: ((text: string) => GivenTime) | undefined;
}

/** What a schema of a parameter tells about itself. */
interface ParamSchema {
  readonly description?: string | undefined;
  readonly options?: readonly unknown[];
  safeParse(value: unknown): { readonly success: boolean; readonly data?: unknown };
}

/** Parameters that are moments say so in the table. */
const UNIX_TIME = /\bUNIX (?:time|seconds)\b/;

/** Names as people type them: `historyResult` is `history-result`. */
export function kebabCase(name: string): string {
  return name.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
}

/** The parameters of an endpoint as options, in the order of the table. */
export function optionsOf(
  name: EndpointName,
  readTime: (text: string) => GivenTime,
): readonly ApiOption[] {
  const shape = endpoints[name].params.shape as unknown as Readonly<Record<string, ParamSchema>>;
  return Object.entries(shape).map(([param, schema]) => {
    const isTime = UNIX_TIME.test(schema.description ?? '');
    const choices = schema.options?.map(String);
    const filled = schema.safeParse(undefined);
    const also = isTime ? ' (or such as 2026-01-31T12:00:00Z, now, -5m)' : '';
    const standard = filled.success ? ` (default: ${String(filled.data)})` : '';
    return {
      param,
      flags: `--${kebabCase(param)} <${isTime ? 'time' : (choices?.join('|') ?? valueName(param))}>`,
      description: (schema.description ?? param) + also + standard,
      isRequired: !filled.success,
      choices,
      read: isTime ? readTime : undefined,
    };
  });
}

function valueName(param: string): string {
  if (param === 'market') return 'name';
  if (param === 'interval') return 'seconds';
  return param === 'price' || param === 'amount' ? 'decimal' : 'number';
}

/** The parameters among the values of options; what is not given is left to the contract. */
export function paramsFrom(
  name: EndpointName,
  values: Readonly<Record<string, unknown>>,
): Readonly<Record<string, unknown>> {
  const params = Object.keys(endpoints[name].params.shape);
  const given = params.filter((param) => values[param] !== undefined);
  return Object.fromEntries(given.map((param) => [param, values[param]]));
}
