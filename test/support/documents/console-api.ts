import { z } from 'zod';
import { EVENTS } from '../../../src/console/api/documents.js';
import { ENDPOINTS, type Endpoint } from '../../../src/console/api/endpoints.js';
import { formOf, valueSchema } from '../../../src/console/api/input.js';
import { API_PATH } from '../../../src/console/api/routes.js';
import { head, plain, table } from './reference.js';

/** Page of the API of the console. */

const isZod = (schema: z.core.$ZodType): schema is z.ZodType => schema instanceof z.ZodType;

function defaultOf(schema: z.ZodType): string {
  if (schema instanceof z.ZodDefault) return `\`${JSON.stringify(schema.def.defaultValue)}\``;
  return schema.safeParse(undefined).success ? '' : 'required';
}

function parameterRows({ input }: Endpoint): string[][] {
  return Object.entries(input.shape).map(([name, schema]) => {
    const inner = valueSchema(schema);
    const outer = (schema as z.ZodType).description;
    const form = formOf(schema).replace(/(?<=one of ).*/, codes);
    const text = outer === undefined || outer === form ? form : `${form}; ${outer}`;
    return [`\`${name}\``, plain(isZod(inner) ? text : form), defaultOf(schema as z.ZodType)];
  });
}

/** Words in a list, each as code. */
const codes = (list: string) =>
  list
    .split(', ')
    .map((word) => `\`${word}\``)
    .join(', ');

/** Names of the fields of an answer, those of its rows in brackets. */
function fieldsOf(schema: z.core.$ZodType, depth: number): string {
  const inner = schema instanceof z.ZodNullable ? schema.unwrap() : valueSchema(schema);
  if (inner instanceof z.ZodArray) return fieldsOf(inner.element, depth);
  if (!(inner instanceof z.ZodObject) || depth === 0) return '';
  return Object.entries(inner.shape)
    .map(([name, one]) => {
      const own = fieldsOf(one as z.ZodType, depth - 1);
      return own === '' ? `\`${name}\`` : `\`${name}\` (${own})`;
    })
    .join(', ');
}

/** The whole document of status has a schema of its own. */
const DEPTHS: Readonly<Record<string, number>> = { status: 1 };

function part(name: string, endpoint: Endpoint): string {
  const { method, path, role, about, answer, formats = [] } = endpoint;
  const notes = [
    `Role: ${role}.`,
    ...(formats.length === 0
      ? []
      : [`Formats: json, ${formats.join(', ')} (\`format=\` or \`Accept\`).`]),
  ];
  return [
    `## ${method.toUpperCase()} ${API_PATH}${path}\n`,
    `${plain(about.charAt(0).toUpperCase() + about.slice(1))}. ${notes.join(' ')}\n`,
    table(['parameter', 'form', 'default'], parameterRows(endpoint)),
    `Answer: ${fieldsOf(answer, DEPTHS[name] ?? 2)}.\n`,
  ]
    .filter((text) => text !== '')
    .join('\n');
}

/** Page of every endpoint, with what it takes and answers. */
export function consoleApiPage(): string {
  const events = Object.entries(EVENTS).map(([name, schema]) => [
    `\`${name}\``,
    plain(schema.description ?? ''),
    fieldsOf(schema, 1),
  ]);
  return [
    head('Console API', 'the table of endpoints'),
    `A daemon serves it on \`http.host\` and \`http.port\`. \`${API_PATH}/openapi.json\` describes it in OpenAPI 3.1. Login and\n`,
    'roles: [operations](../guides/operations.md#login).\n\n',
    'Lists are repeated parameters or values with commas. A GET takes its parameters from the query, a POST from a JSON\n',
    'object in the body. Errors are `{ "error": "one sentence" }` with the status 400, 401, 403, 404, 405, 413, 415, 429 or 503.\n\n',
    Object.entries(ENDPOINTS)
      .map(([name, endpoint]) => part(name, endpoint))
      .join('\n'),
    `\n## GET ${API_PATH}/events\n\n`,
    'Server-Sent Events. `topics` is a list of `state`, `activity`, `changed`, `trades:MARKET` and `book:MARKET`, 12 at most. A\n',
    'comment comes each 15 s. A stream ends after an hour, and when its reader is too slow; ask again then. Role: viewer.\n\n',
    table(['event', 'meaning', 'fields'], events),
  ].join('');
}
