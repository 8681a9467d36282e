/** A name of an option, with or without its value. */
const OPTION = /^--[a-z][a-z-]*(?:=.*)?$/s;

/**
 * The arguments, with statements that begin with a comment of SQL (`-- …`) marked as no options: they
 * get a space before them. An option has no white space in its name, and a comment that has none is no
 * statement.
 */
export function withStatements(args: readonly string[]): string[] {
  if (!args.includes('query')) return [...args];
  return args.map((one) =>
    one.startsWith('--') && /\s/.test(one) && !OPTION.test(one) ? ` ${one}` : one,
  );
}
