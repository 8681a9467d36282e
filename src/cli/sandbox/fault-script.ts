import { readYamlFile } from '../../config/yaml-file.js';
import { messageOf } from '../../kernel/errors.js';
import { UsageError } from '../failure.js';

const RULE_FORM = 'write kind=…,key=value,…, such as kind=latency,where=history,ms=500';

/** Numbers and flags of a rule on the command line mean what they would in a file. */
function readValue(text: string): string | number | boolean {
  if (text === 'true' || text === 'false') return text === 'true';
  return /^-?\d{1,15}(\.\d{1,15})?$/.test(text) ? Number(text) : text;
}

/** Reads one `--fault`, for example `kind=latency,where=history,probability=0.1,ms=500`. */
function readRule(text: string): Readonly<Record<string, unknown>> {
  const rule = new Map<string, unknown>();
  for (const part of text.split(',')) {
    const [key = '', ...rest] = part.split('=');
    const isReadable = key.trim() !== '' && rest.length > 0 && !rule.has(key.trim());
    if (!isReadable) throw new UsageError('--fault', text, RULE_FORM);
    rule.set(key.trim(), readValue(rest.join('=').trim()));
  }
  return Object.fromEntries(rule);
}

function readFile(path: string): { readonly rules: unknown } {
  let document: unknown;
  try {
    document = readYamlFile(path);
  } catch (error) {
    throw new UsageError('--faults', path, `it can not be read: ${messageOf(error)}`);
  }
  if (Array.isArray(document)) return { rules: document };
  if (document !== null && typeof document === 'object' && 'rules' in document) return document;
  throw new UsageError('--faults', path, 'it must hold a list of rules, or {seed, rules}');
}

/**
 * Puts the rules of a file and those of the command line into one script, which is not checked yet:
 * the file's rules come first.
 *
 * @throws UsageError when the file is not readable, or a rule is no list of `key=value`.
 */
export function gatherFaultScript(file: string | undefined, rules: readonly string[]): object {
  const own = rules.map(readRule);
  if (file === undefined) return { rules: own };
  const script = readFile(file);
  return Array.isArray(script.rules) ? { ...script, rules: [...script.rules, ...own] } : script;
}
