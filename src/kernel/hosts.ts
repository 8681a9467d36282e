import type { IncomingHttpHeaders } from 'node:http';
import { isIP } from 'node:net';

/**
 * Whether a Host header is an address, `localhost`, or a name without a dot. A name of the network at
 * large would mean a web page that had its own name resolved to this machine, to read from a browser
 * what is served here; no page gets a name without a dot for its own.
 *
 * @param host with or without a port
 */
export function isLocalHost(host: string): boolean {
  const name = host
    .replace(/:\d{1,5}$/, '')
    .replace(/\.$/, '')
    .toLowerCase();
  const address = /^\[(.*)\]$/.exec(name)?.[1] ?? name;
  if (isIP(address) !== 0) return true;
  return /^[a-z0-9_-]{1,63}(\.localhost)?$/.test(name);
}

/** Whether a browser says that a page of another site has made it send a request. */
export function isFromOtherSite(headers: IncomingHttpHeaders): boolean {
  const site = headers['sec-fetch-site'];
  return site !== undefined && site !== 'same-origin' && site !== 'none';
}
