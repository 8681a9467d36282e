import { readFileSync, statSync } from 'node:fs';
import { parse } from 'yaml';

/** Largest file that is read, bytes. */
const MAX_FILE_BYTES = 1_048_576;

/** The text of a file that people wrote. @throws Error also when it is too large to be one */
export function readBounded(path: string): string {
  const { size } = statSync(path);
  if (size > MAX_FILE_BYTES) throw new Error(`the file has ${size} bytes, more than 1 MiB`);
  return readFileSync(path, 'utf8');
}

/**
 * Reads one YAML document, and JSON as a part of YAML.
 *
 * @throws Error whose message says why the file is not readable or no YAML, without its path.
 */
export function readYamlFile(path: string): unknown {
  return parse(readBounded(path), { maxAliasCount: 100 });
}

interface DescribedSetting {
  readonly path: string;
  /** Default in the notation of the file. */
  readonly value: string;
  readonly about: string;
}

interface DescribedSection {
  readonly path: string;
  readonly about: string;
  readonly settings: DescribedSetting[];
}

/** Reads sections and settings of the documented file, each with the comments above and behind it. */
export function describedDefaults(yaml: string): { intro: string; sections: DescribedSection[] } {
  const [intro = '', ...rest] = yaml.split(/\n\n/);
  const sections: DescribedSection[] = [{ path: '', about: '', settings: [] }];
  const open: string[] = [];
  let comment: string[] = [];
  for (const line of rest.join('\n\n').split('\n')) {
    const [, note] = /^ *# ?(.*)$/.exec(line) ?? [];
    const [, indent = '', name, value = '', behind] =
      /^( *)(\w+):\s*(.*?)(?:\s+# (.*))?$/.exec(line) ?? [];
    if (note !== undefined) comment.push(note);
    if (behind !== undefined) comment.push(behind);
    if (name !== undefined) {
      open.length = indent.length / 2;
      const within = open.join('.');
      open.push(name);
      const about = comment.join(' ');
      const path = open.join('.');
      if (value === '') sections.push({ path, about, settings: [] });
      else sections.find((one) => one.path === within)?.settings.push({ path, value, about });
    }
    if (note === undefined) comment = [];
  }
  return { intro: intro.replaceAll(/^# ?/gm, ''), sections };
}
