import htm from 'htm';
import { h, type VNode } from 'preact';

/** Element tree of a template. Every text in it is escaped: nothing on the page is set as HTML. */
export const html = htm.bind(h) as (
  strings: TemplateStringsArray,
  ...values: readonly unknown[]
) => VNode;

/** Names of classes that hold, joined. */
export function classes(...names: readonly (string | false | null | undefined)[]): string {
  return names.filter(Boolean).join(' ');
}
