import { get, type IncomingHttpHeaders } from 'node:http';

/** What came back over one connection, whole or not. */
export interface RawReply {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
  /** The pieces in which the body arrived. */
  readonly pieces: number;
  /** Whether everything that the headers promised has come. */
  readonly isComplete: boolean;
}

/** Sends a GET over a connection of its own. Rejects when no headers come. */
export function getRaw(url: string, signal?: AbortSignal): Promise<RawReply> {
  return new Promise((resolve, reject) => {
    const request = get(url, { agent: false, ...(signal === undefined ? {} : { signal }) });
    request.on('error', reject);
    request.on('response', (response) => {
      const chunks: Buffer[] = [];
      response.on('data', (chunk: Buffer) => chunks.push(chunk));
      // What is cut off is an error to node and a finding to us; `close` follows either way.
      response.on('error', () => {});
      response.on('close', () =>
        resolve({
          status: response.statusCode ?? 0,
          headers: response.headers,
          body: Buffer.concat(chunks).toString('utf8'),
          pieces: chunks.length,
          isComplete: response.complete,
        }),
      );
    });
  });
}
