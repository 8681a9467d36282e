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

function columnsOf({ columns }: Relation): string {
  return table(
    ['column', 'type', 'meaning'],
    columns.map(({ name, type, about }) => [`\`${name}\``, type, plain(about ?? '')]),
  );
}

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
  return [
    head('SQL', 'the comments in the database'),
    'How to connect, and what to know before: [SQL from Postgres clients](../guides/sql.md). The columns of',
    ' functions that answer\nfor a span are those of the view of the same name; `coverage` and `klines` have some of their own, which\n`\\df+ analytics.*` of psql lists.\n',
    '\n## Views of `analytics`\n\n',
    views.map((one) => `${withExample(one.name, one.about)}\n${columnsOf(one)}`).join('\n'),
    '\n## Functions of `analytics`\n\n',
    part(({ about }) => !isHelper(about)),
    '\n## Helpers\n\n',
    'The functions above are made of them; arguments and answers may change from version to version.\n\n',
    part(({ about }) => isHelper(about)),
    '\n## Tables\n\n',
    'They hold what is in the database; rows in [cold files](../guides/cold-files.md) are not among it.\n\n',
    tables.map((one) => `${withExample(one.name, one.about)}\n${columnsOf(one)}`).join('\n'),
  ].join('');
}
