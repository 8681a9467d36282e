import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join, posix } from 'node:path';
import { repositoryPath } from '../repository/repository.js';

/** One page for users or contributors; `path` is from the repository's folder, with `/`. */
export interface Document {
  readonly path: string;
  readonly text: string;
}

const AT_THE_ROOT = ['README.md', 'CONTRIBUTING.md', 'SECURITY.md', 'CHANGELOG.md'];

/** All pages: those at the root, then `docs/` in order of their paths. */
export function readDocuments(): Document[] {
  const pages = readdirSync(join(repositoryPath, 'docs'), { recursive: true, encoding: 'utf8' })
    .filter((path) => path.endsWith('.md'))
    .map((path) => `docs/${path.replaceAll('\\', '/')}`)
    .sort();
  return [...AT_THE_ROOT, ...pages].map(readDocument);
}

export function readDocument(path: string): Document {
  return { path, text: readFileSync(join(repositoryPath, path), 'utf8') };
}

const FENCED = /^( *)```([^\n]*)\n([\s\S]*?)^\1```/gm;

/** Code of one language, block by block. The language is all that follows the fence: `sh`, `sql admin`. */
export function blocksOf(text: string, language: string): string[] {
  return Array.from(text.matchAll(FENCED), ([, , name, code]) => ({ name, code }))
    .filter(({ name }) => name === language)
    .map(({ code }) => code ?? '');
}

function withoutCode(text: string): string {
  return text
    .replaceAll(FENCED, '')
    .replaceAll(/`[^`\n]*`/g, (code) => code.replace(/[[\]()]/g, ''));
}

/** What a heading can be linked by, as repository hosts make it of its text. */
export function anchorsOf(text: string): string[] {
  const seen = new Map<string, number>();
  const headings = text.replaceAll(FENCED, '').matchAll(/^#{1,6} +(.+?) *#*$/gm);
  return Array.from(headings, ([, title = '']) => {
    const slug = title
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N}\s_-]/gu, '')
      .trim()
      .replaceAll(/\s/g, '-');
    const before = seen.get(slug) ?? 0;
    seen.set(slug, before + 1);
    return before === 0 ? slug : `${slug}-${before}`;
  });
}

/** Links of `document` within the repository that lead nowhere: no such file, or no such heading. */
export function brokenLinks(
  document: Document,
  exists = (path: string) => existsSync(join(repositoryPath, path)),
  read = (path: string) => readDocument(path).text,
): string[] {
  const targets = withoutCode(document.text).matchAll(/\]\(([^)\s]+)[^)]*\)/g);
  return Array.from(targets, ([, target = '']) => target).filter((target) => {
    if (/^[a-z]+:/.test(target)) return false;
    const [file = '', anchor] = target.split('#');
    const path =
      file === '' ? document.path : posix.join(posix.dirname(document.path), decodeURI(file));
    if (path.startsWith('..') || !exists(path)) return true;
    return anchor !== undefined && !anchorsOf(read(path)).includes(anchor);
  });
}
