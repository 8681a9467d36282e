import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { connect, createServer, type Server, type Socket } from 'node:net';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { createServer as createTlsServer } from 'node:tls';

/**
 * Certificates of servers for tests, all of one key that is good for nothing else. `authority.pem` signed
 * all but the self-signed one; the right one is for localhost, 127.0.0.1 and ::1.
 */
export type Certificate = 'right' | 'expired' | 'other-name' | 'self-signed';

const here = (name: string) => join(import.meta.dirname, name);
const key = readFileSync(here('test-only-key.pem'));

/** For NODE_EXTRA_CA_CERTS and sslrootcert. */
export const AUTHORITY = here('authority.pem');

/** A Postgres client asks for TLS in the clear, and goes on when it reads "S". */
const SSL_REQUEST_BYTES = 8;

/**
 * Stands in front of a server without TLS and ends TLS for it.
 *
 * @param target address of the server
 * @param speaks what a client says before TLS: nothing, or what Postgres wants
 * @returns the port, at localhost
 */
export async function startTlsFront(
  t: TestContext,
  target: { readonly hostname: string; readonly port: string },
  certificate: Certificate,
  speaks: 'tls' | 'postgres' = 'tls',
): Promise<number> {
  const cert = readFileSync(here(`${certificate}.pem`));
  const open = new Set<Socket>();
  const link = (near: Socket, port: number, host: string) => {
    const far = connect(port, host);
    for (const socket of [near, far]) {
      open.add(socket);
      socket.on('error', () => undefined);
      socket.on('close', () => {
        near.destroy();
        far.destroy();
      });
    }
    near.pipe(far).pipe(near);
  };
  const listen = async (server: Server) => {
    server.listen(0, 'localhost');
    await once(server, 'listening');
    t.after(() => server.close());
    const address = server.address();
    return typeof address === 'object' ? (address?.port ?? 0) : 0;
  };
  t.after(() => {
    for (const socket of open) socket.destroy();
  });
  const host = target.hostname.replace(/^\[|\]$/g, '');
  const targetPort = Number(target.port);
  const secure = createTlsServer({ key, cert }, (near) => link(near, targetPort, host));
  secure.on('tlsClientError', () => undefined);
  const port = await listen(secure);
  if (speaks === 'tls') return port;
  return await listen(
    createServer((near) => {
      near.on('error', () => undefined);
      near.once('data', (asked: Buffer) => {
        if (asked.length !== SSL_REQUEST_BYTES) near.destroy();
        near.write('S');
        link(near, port, 'localhost');
      });
    }),
  );
}
