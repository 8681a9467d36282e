import { z } from 'zod';

/** A JSON Schema, or any other part of a document. */
export type JsonObject = { [key: string]: unknown };

/** `draft-2020-12` is OpenAPI 3.1's draft, `draft-7` is AsyncAPI 3.0's. */
export type Draft = 'draft-2020-12' | 'draft-7';

/** Path at which the documents of both kinds keep their named schemas. */
const COMPONENTS = '#/components/schemas/';

/** Collects the named schemas that the parts of one document refer to. */
export class SchemaBook {
  readonly #draft: Draft;
  readonly #named = new Map<string, JsonObject>();

  constructor(draft: Draft) {
    this.#draft = draft;
  }

  /** The named schemas met so far, sorted by name. */
  named(): JsonObject {
    return Object.fromEntries([...this.#named].sort(([a], [b]) => (a < b ? -1 : 1)));
  }

  /**
   * Describes a value on the wire, as JSON Schema. Schemas with an id become references into
   * the components of the document.
   */
  of(schema: z.ZodType): JsonObject {
    const { $defs, definitions, ...own } = convert(schema, this.#draft);
    for (const [id, part] of Object.entries({ ...asObject($defs), ...asObject(definitions) })) {
      this.#keep(id, asObject(part));
    }
    const { id } = z.globalRegistry.get(schema) ?? {};
    // A schema that is itself named comes unfolded.
    if (id === undefined || '$ref' in own) return own;
    this.#keep(id, own);
    return { $ref: COMPONENTS + id };
  }

  /** Names a part of a document that no zod schema stands for. */
  name(id: string, part: JsonObject): JsonObject {
    this.#keep(id, part);
    return { $ref: COMPONENTS + id };
  }

  #keep(id: string, { id: _id, $id: _uri, ...part }: JsonObject): void {
    this.#named.set(id, part);
  }
}

function asObject(value: unknown): JsonObject {
  return typeof value === 'object' && value !== null ? (value as JsonObject) : {};
}

/** Returns true if a field may be left out, judged by what the schema itself does. */
export function isOptional(schema: z.ZodType): boolean {
  return schema.safeParse(undefined).success;
}

function convert(schema: z.ZodType, draft: Draft): JsonObject {
  const { $schema: _draft, ...converted } = z.toJSONSchema(schema, {
    target: draft,
    io: 'input',
    unrepresentable: 'any',
    override: ({ zodSchema, jsonSchema }) => {
      const zod: unknown = zodSchema;
      const json = jsonSchema as JsonObject;
      if (zod instanceof z.ZodPipe) narrow(zod, json, draft);
      if (zod instanceof z.ZodDefault) json.default = zod.def.defaultValue;
      if (zod instanceof z.ZodObject) markRequired(zod, json);
      if (zod instanceof z.ZodTuple && zod.def.rest === null) close(zod, json, draft);
    },
  });
  return withComponents(converted) as JsonObject;
}

/**
 * Every pipe of the contract narrows: what passes it satisfies both ends, and a transformation only
 * evens out the notation. So both ends describe the wire together.
 */
function narrow(pipe: z.ZodPipe, json: JsonObject, draft: Draft): void {
  const ends = [pipe.def.in, pipe.def.out].map((end) => convert(end as z.ZodType, draft));
  const isInteger = ends.some(({ type }) => type === 'integer');
  Object.assign(json, ...ends, z.globalRegistry.get(pipe));
  if (isInteger) json.type = 'integer';
}

/** Zod takes fields that it reads through a transformation for optional; the schema knows better. */
function markRequired({ shape }: z.ZodObject, json: JsonObject): void {
  const names = Object.keys(shape).filter((name) => !isOptional(shape[name] as z.ZodType));
  if (names.length > 0) json.required = names;
  else delete json.required;
}

/** A tuple has exactly its items. */
function close({ def }: z.ZodTuple, json: JsonObject, draft: Draft): void {
  json.minItems = def.items.length;
  json.maxItems = def.items.length;
  // An empty list of item schemas is not allowed.
  if (def.items.length === 0) delete json[draft === 'draft-7' ? 'items' : 'prefixItems'];
}

/** References into the document's components instead of the schema's own definitions. */
function withComponents(part: unknown): unknown {
  if (Array.isArray(part)) return part.map(withComponents);
  if (typeof part !== 'object' || part === null) return part;
  return Object.fromEntries(
    Object.entries(part).map(([key, value]) => [
      key,
      key === '$ref' && typeof value === 'string'
        ? value.replace(/^#\/(?:\$defs|definitions)\//, COMPONENTS)
        : withComponents(value),
    ]),
  );
}

/** Properties that have exactly these values; an empty list stands for itself. */
export function constants(fields: Readonly<Record<string, unknown>>): JsonObject {
  return Object.fromEntries(Object.entries(fields).map(([name, value]) => [name, constant(value)]));
}

function constant(value: unknown): JsonObject {
  return Array.isArray(value) && value.length === 0
    ? { type: 'array', maxItems: 0 }
    : { const: value };
}

/** An object with these fields, all of them required. */
export function objectOf(properties: JsonObject): JsonObject {
  return { type: 'object', properties, required: Object.keys(properties) };
}
