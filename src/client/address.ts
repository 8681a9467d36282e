import { InvalidAddressError } from './errors.js';

/**
 * Checks an address from the configuration.
 *
 * @param setting what to call it in the message
 * @param protocols the allowed schemes, such as `['http:', 'https:']`
 * @throws InvalidAddressError for another scheme, credentials, or anything that is not an address
 */
export function readAddress(setting: string, text: string, protocols: readonly string[]): URL {
  if (!URL.canParse(text)) {
    throw new InvalidAddressError(setting, text, 'it is not an address');
  }
  const url = new URL(text);
  if (url.username !== '' || url.password !== '') {
    throw new InvalidAddressError(setting, url.host, 'leave user name and password out of it');
  }
  if (!protocols.includes(url.protocol)) {
    const allowed = protocols.map((protocol) => `${protocol}//`).join(' or ');
    throw new InvalidAddressError(setting, text, `it must begin with ${allowed}`);
  }
  return url;
}
