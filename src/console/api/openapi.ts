import { z } from 'zod';
import { EVENTS, FAULT } from './documents.js';
import { ENDPOINTS, type Endpoint, type EndpointName } from './endpoints.js';
import { FORMAT_TYPES } from './formats.js';
import { FORMAT_PARAMETER } from './input.js';

/** OpenAPI 3.1 of the API, made of the table of endpoints. */

type JsonObject = { [key: string]: unknown };

const REFUSED: Readonly<Record<string, string>> = {
  400: 'A parameter or the body is wrong; the sentence names it and says what to do',
  401: 'A token or a login is needed',
  403: 'The role does not suffice, or a page of another site asks',
  404: 'There is no such thing',
  413: 'The body is too large',
  415: 'The body is not JSON',
  429: 'Too many wrong tokens, or too much was asked; Retry-After says when to ask again',
  501: 'This version does not serve it',
  503: 'It cannot be answered at present; Retry-After says when to ask again, where that is known',
};

/** Describes a value that comes in, or an answer, as JSON Schema. */
function schemaOf(schema: z.ZodType): JsonObject {
  const { $schema: _draft, ...json } = z.toJSONSchema(schema, {
    target: 'draft-2020-12',
    io: 'input',
    unrepresentable: 'any',
    // Numbers of a query are texts that are read as such: the schema is that of the number.
    override: ({ zodSchema, jsonSchema }) => {
      if (zodSchema instanceof z.ZodNumber && zodSchema.def.coerce) jsonSchema.type ??= 'number';
    },
  });
  return json;
}

const named = (name: string) => ({ $ref: `#/components/schemas/${name}` });
const schemaName = (name: string) => `${name.charAt(0).toUpperCase()}${name.slice(1)}`;
const inPath = ({ path }: Endpoint, name: string) => path.includes(`{${name}}`);

function parametersOf(endpoint: Endpoint): JsonObject[] {
  const { method, input, formats = [] } = endpoint;
  const shape = Object.entries(input.shape).filter(([name]) => {
    return method === 'get' || inPath(endpoint, name);
  });
  const own = shape.map(([name, schema]) => {
    const { description, ...json } = schemaOf(schema as z.ZodType);
    const place = inPath(endpoint, name) ? 'path' : 'query';
    const isRequired = place === 'path' || !(schema as z.ZodType).safeParse(undefined).success;
    return {
      ...{ name, in: place, required: isRequired },
      ...(description === undefined ? {} : { description }),
      ...(json.type === 'array' ? { style: 'form', explode: false } : {}),
      schema: json,
    };
  });
  const choices = ['json', ...formats];
  const about = 'format of the answer; `Accept` does the same';
  const format = { name: FORMAT_PARAMETER, in: 'query', required: false, description: about };
  return [...own, ...(formats.length === 0 ? [] : [{ ...format, schema: { enum: choices } }])];
}

function bodyOf(endpoint: Endpoint): JsonObject {
  if (endpoint.method === 'get') return {};
  const own = Object.entries(endpoint.input.shape).filter(([name]) => !inPath(endpoint, name));
  const schema = schemaOf(z.strictObject(Object.fromEntries(own) as z.ZodRawShape));
  return { requestBody: { required: true, content: { 'application/json': { schema } } } };
}

const faultContent = { 'application/json': { schema: named('Fault') } };

function responsesOf(name: string, { formats = [], rows }: Endpoint): JsonObject {
  const others = formats.map((format) => {
    const [type = ''] = FORMAT_TYPES[format].split(';');
    return [type, { schema: { type: 'string', description: `rows of \`${rows}\`` } }];
  });
  const json = { schema: named(schemaName(name)) };
  const content = { 'application/json': json, ...Object.fromEntries(others) };
  const refused = Object.entries(REFUSED).map(([status, description]) => {
    return [status, { description, content: faultContent }];
  });
  return { 200: { description: 'Success', content }, ...Object.fromEntries(refused) };
}

function operationOf(name: EndpointName): JsonObject {
  const endpoint: Endpoint = ENDPOINTS[name];
  return {
    operationId: name,
    summary: endpoint.about,
    description: `Needs the role ${endpoint.role}.`,
    tags: [endpoint.role],
    parameters: parametersOf(endpoint),
    ...bodyOf(endpoint),
    responses: responsesOf(name, endpoint),
  };
}

function eventsOperation(): JsonObject {
  const kinds = Object.keys(EVENTS).map((name) => `\`${name}\``);
  const topics = { type: 'array', items: { type: 'string' }, minItems: 1, maxItems: 12 };
  const text = 'Server-Sent Events; the data of each is a JSON document';
  return {
    operationId: 'events',
    summary: 'changes as they happen, as Server-Sent Events',
    description: `Events are ${kinds.join(', ')}; the schemas Event… describe their data.`,
    tags: ['viewer'],
    parameters: [
      {
        ...{ name: 'topics', in: 'query', required: true, style: 'form', explode: false },
        description: 'state, activity, changed, trades:MARKET, book:MARKET',
        schema: topics,
      },
    ],
    responses: {
      200: { description: text, content: { 'text/event-stream': { schema: { type: 'string' } } } },
      400: { description: REFUSED[400], content: faultContent },
      503: { description: 'Too many pages listen', content: faultContent },
    },
  };
}

/** Makes the document. @param version of the program */
export function openApiDocument(version: string): JsonObject {
  const names = Object.keys(ENDPOINTS) as EndpointName[];
  const paths: Record<string, JsonObject> = { '/events': { get: eventsOperation() } };
  for (const name of names) {
    const { path, method } = ENDPOINTS[name];
    paths[path] = { ...paths[path], [method]: operationOf(name) };
  }
  const answers = names.map((name) => [schemaName(name), schemaOf(ENDPOINTS[name].answer)]);
  const events = Object.entries(EVENTS).map(([name, schema]) => {
    return [`Event${schemaName(name)}`, schemaOf(schema)];
  });
  const token = 'http.token (operator) or http.viewerToken (viewer)';
  return {
    openapi: '3.1.0',
    info: {
      title: 'tapekeep: API of the console',
      version,
      description:
        'State, coverage, gaps and rows of an archive, and the daemon that collects it. Times are of the ' +
        "exchange's clock, prices and amounts are texts, durations end in S (seconds) or Ms.",
    },
    servers: [{ url: '/api/v1' }],
    security: [{ bearer: [] }, { basic: [] }, { cookie: [] }],
    tags: [
      { name: 'viewer', description: 'reads' },
      { name: 'operator', description: 'acts, or reads what only operators may' },
    ],
    paths,
    components: {
      securitySchemes: {
        bearer: { type: 'http', scheme: 'bearer', description: token },
        basic: { type: 'http', scheme: 'basic', description: `Any name; the password is ${token}` },
        cookie: {
          type: 'apiKey',
          in: 'cookie',
          name: 'tapekeep_session',
          description: 'of /login',
        },
      },
      schemas: Object.fromEntries([...answers, ...events, ['Fault', schemaOf(FAULT)]]),
    },
  };
}
