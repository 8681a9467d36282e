import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders, request } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import type { TestContext } from 'node:test';
import { Watch } from './watch.js';

/** One thing that a proxy was asked for. */
export interface ProxyRequest {
  /** `CONNECT host:port`, or `GET http://host:port/path`. */
  readonly line: string;
  readonly headers: IncomingHttpHeaders;
}

export interface ForwardProxy {
  readonly url: string;
  readonly seen: ProxyRequest[];
  /** Resolves when `count` requests have come in all. */
  requests(count: number): Promise<void>;
}

export interface ProxyRules {
  /** `user:password`, without which it answers 407. */
  readonly login?: string;
  /** Status with which it answers tunnels in place of making them; `none` never answers. */
  readonly refuses?: number | 'none';
}

const statusLine = (status: number) => `HTTP/1.1 ${status} Said By The Proxy\r\n\r\n`;

/**
 * A proxy that forwards requests and makes tunnels. Each name leads to this machine: so what uses a name that
 * no server knows cannot go past it. It closes with the test.
 */
export async function startForwardProxy(
  t: TestContext,
  { login, refuses }: ProxyRules = {},
): Promise<ForwardProxy> {
  const seen: ProxyRequest[] = [];
  const watch = new Watch();
  const open = new Set<Socket>();
  const expected = login && `Basic ${Buffer.from(login).toString('base64')}`;
  const mayPass = (line: string, headers: IncomingHttpHeaders) => {
    seen.push({ line, headers });
    watch.wake();
    return headers['proxy-authorization'] === expected;
  };
  const server = createServer(({ method = '', url = '', headers }, response) => {
    if (!mayPass(`${method} ${url}`, headers)) {
      response.writeHead(407).end();
      return;
    }
    const { port, pathname, search } = new URL(url);
    const { 'proxy-authorization': _secret, ...rest } = headers;
    const path = pathname + search;
    const forwarded = request({ host: '127.0.0.1', port, method, path, headers: rest });
    forwarded.on('response', (answer) => {
      response.writeHead(answer.statusCode ?? 502, answer.headers);
      answer.pipe(response);
    });
    forwarded.on('error', () => response.destroy());
    forwarded.end();
  });
  server.on('connection', (socket: Socket) => open.add(socket));
  server.on('connect', ({ url = '', headers }, near: Socket) => {
    near.on('error', () => undefined);
    const isLetIn = mayPass(`CONNECT ${url}`, headers);
    if (refuses === 'none') return;
    if (!isLetIn || refuses !== undefined) {
      near.end(statusLine(isLetIn ? (refuses ?? 200) : 407));
      return;
    }
    const far = connect(Number(new URL(`http://${url}`).port || 80), '127.0.0.1');
    open.add(far);
    for (const socket of [near, far]) {
      socket.on('error', () => undefined);
      socket.on('close', () => {
        near.destroy();
        far.destroy();
      });
    }
    far.once('connect', () => {
      near.write(statusLine(200));
      near.pipe(far).pipe(near);
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => {
    for (const socket of open) socket.destroy();
    server.close();
  });
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    seen,
    requests: (count) => watch.until(() => seen.length >= count),
  };
}
