import { runSql } from '../postgres/postgres-server.js';
import { head, plain, table } from './reference.js';

interface Relation {
  readonly name: string;
  readonly about: string | null;
  readonly columns: ReadonlyArray<{ name: string; type: string; about: string | null }>;
}

interface SqlFunction {
  readonly name: string;
  readonly names: readonly string[];
  readonly optional: number;
  readonly about: string | null;
}

/** Tables for the program alone: named, not described. */
const INTERNAL = new Set([
  'exclusive_lock',
  'partition_policy',
  'reader_lock',
  'candle_recheck',
  'writer_commit',
  'journal_end',
  'writer_beat',
  'journal',
]);

/** Tables or views of a schema with the comments of their columns; no partitions of others. */
function relations(url: string, schema: string, kinds: readonly string[]): Promise<Relation[]> {
  return runSql<Relation>(
    url,
    `SELECT c.relname AS name, obj_description(c.oid, 'pg_class') AS about,
            json_agg(json_build_object('name', a.attname, 'type', format_type(a.atttypid, a.atttypmod),
                     'about', col_description(c.oid, a.attnum)) ORDER BY a.attnum) AS columns
     FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
     WHERE c.relnamespace = '${schema}'::regnamespace AND NOT c.relispartition
       AND c.relkind::text = ANY ('{${kinds.join(',')}}') AND c.relname !~ '^pgmigrations'
     GROUP BY c.oid ORDER BY c.relname`,
  );
}

function functions(url: string): Promise<SqlFunction[]> {
  return runSql<SqlFunction>(
    url,
    `SELECT DISTINCT ON (name, names) name, names, optional, about FROM (
       SELECT p.oid, p.proname AS name, p.pronargdefaults AS optional,
              to_json(coalesce(p.proargnames[1:p.pronargs], '{}'))::jsonb AS names,
              obj_description(p.oid, 'pg_proc') AS about
       FROM pg_proc p WHERE p.pronamespace = 'analytics'::regnamespace) found
     ORDER BY name, names, oid`,
  );
}

const isHelper = (comment: string | null) => comment?.startsWith('Helper: ') ?? false;

/** The text of a comment, and the example at its end. */
function split(comment: string | null): { about: string; example: string } {
  const [about = '', example = ''] = (comment ?? '').split('Example: ');
  return { about: plain(about.trim()), example: example.trim() };
}

function withExample(title: string, comment: string | null): string {
  const { about, example } = split(comment);
  return `### ${title}\n\n${about}\n${example === '' ? '' : `\n\`\`\`sql\n${example}\n\`\`\`\n`}`;
}

const typeOf = (type: string) => type.replace('timestamp with time zone', 'timestamptz');

/** Columns that a comment explains as a table, the others as a line. */
function columnsOf({ columns }: Relation): string {
  const explained = columns.filter(({ about }) => about !== null);
  const others = columns.filter(({ about }) => about === null);
  const names = others.map(({ name }) => `\`${name}\``).join(', ');
  const rows = explained.map(({ name, type, about }) => [
    `\`${name}\``,
    typeOf(type),
    plain(about ?? ''),
  ]);
  const line = names === '' ? '' : `${rows.length === 0 ? 'Columns' : '\nAlso'}: ${names}.\n`;
  return `${table(['column', 'type', 'meaning'], rows)}${line}`;
}

const listOf = (named: ReadonlyArray<{ readonly name: string }>) =>
  [...new Set(named.map(({ name }) => `\`${name}\``))].join(', ');

/** The page of SQL, from the comments in a migrated database. */
export async function sqlPage(url: string): Promise<string> {
  const [views, tables, calls] = await Promise.all([
    relations(url, 'analytics', ['v', 'r', 'm']),
    relations(url, 'public', ['r', 'p']),
    functions(url),
  ]);
  const signature = ({ name, names, optional }: SqlFunction) => {
    const least = names.length - optional;
    return `${name}(${names.map((one, at) => (at < least ? one : `[${one}]`)).join(', ')})`;
  };
  const part = (isOfIt: (call: SqlFunction) => boolean) =>
    calls
      .filter(isOfIt)
      .map((one) => withExample(signature(one), one.about))
      .join('\n');
  const described = tables.filter(({ name }) => !INTERNAL.has(name));
  const internal = tables.filter(({ name }) => INTERNAL.has(name));
  const helpers = calls.filter(({ about }) => isHelper(about));
  return [
    head('SQL', 'the comments in the database'),
    'How to connect, and which rows each returns: [SQL](../guides/sql.md). A function of a time range has the columns of\n',
    'the view of the same name; `\\df+ analytics.*` in psql lists all.\n',
    '\n## Views of `analytics`\n\n',
    views.map((one) => `${withExample(one.name, one.about)}\n${columnsOf(one)}`).join('\n'),
    '\n## Functions of `analytics`\n\n',
    part(({ about }) => !isHelper(about)),
    '\n## Tables\n\n',
    'What archived rows cost: [hot, archived, expired](../guides/sql.md#hot-archived-expired).\n\n',
    described.map((one) => `${withExample(one.name, one.about)}\n${columnsOf(one)}`).join('\n'),
    `\n## Internal\n\nThese may change in any version. Tables: ${listOf(internal)}. Functions of \`analytics\`: `,
    `${listOf(helpers)}.\n`,
  ].join('');
}
