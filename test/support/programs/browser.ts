import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { rm } from 'node:fs/promises';
import { createInterface } from 'node:readline';
import { WebSocket } from 'ws';
import { makeTempDir } from '../postgres/postgres-server.js';

/** A real browser without a window, driven over its own debugging protocol. */
export interface Browser {
  /** Opens an address in a window of this width, and waits until it is drawn. */
  open(url: string, width: number): Promise<void>;
  /** The value of an expression in the page. */
  evaluate<T>(expression: string): Promise<T>;
  /** What the window shows, as PNG. */
  screenshot(): Promise<Buffer>;
  close(): Promise<void>;
}

const NAMES = ['chromium', 'chromium-browser', 'google-chrome'];
const ARGUMENTS = ['--headless=new', '--no-sandbox', '--disable-gpu', '--remote-debugging-port=0'];

interface Message {
  readonly id?: number;
  readonly method?: string;
  readonly result?: unknown;
  readonly error?: { readonly message: string };
}

/** @returns undefined where no browser is installed */
export async function startBrowser(): Promise<Browser | undefined> {
  for (const name of NAMES) {
    const profile = await makeTempDir();
    const child = spawn(name, [...ARGUMENTS, `--user-data-dir=${profile}`, 'about:blank'], {
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    const ended = new Promise((resolve) => child.once('close', resolve));
    const address = await addressOf(child.stderr, child);
    if (address === undefined) {
      await rm(profile, { recursive: true, force: true });
      continue;
    }
    const socket = new WebSocket(address);
    await once(socket, 'open');
    return drive(socket, async () => {
      child.kill('SIGKILL');
      await ended;
      await rm(profile, { recursive: true, force: true, maxRetries: 5 });
    });
  }
  return undefined;
}

function addressOf(
  stderr: NodeJS.ReadableStream,
  child: NodeJS.EventEmitter,
): Promise<string | undefined> {
  return new Promise((resolve) => {
    child.once('error', () => resolve(undefined));
    child.once('close', () => resolve(undefined));
    createInterface({ input: stderr }).on('line', (line) => {
      const found = /^DevTools listening on (ws:\S+)/.exec(line)?.[1];
      if (found !== undefined) resolve(found);
    });
  });
}

async function drive(socket: WebSocket, end: () => Promise<void>): Promise<Browser> {
  let last = 0;
  const answers = new Map<number, (message: Message) => void>();
  const events = new Map<string, () => void>();
  socket.on('message', (data: Buffer) => {
    const message = JSON.parse(data.toString()) as Message;
    if (message.id !== undefined) answers.get(message.id)?.(message);
    else events.get(message.method ?? '')?.();
  });
  let sessionId: string | undefined;
  const send = async <T>(method: string, params: object = {}): Promise<T> => {
    last += 1;
    const id = last;
    const answer = new Promise<Message>((resolve) => answers.set(id, resolve));
    socket.send(JSON.stringify({ id, method, params, sessionId }));
    const { result, error } = await answer;
    answers.delete(id);
    if (error !== undefined) throw new Error(`${method}: ${error.message}`);
    return result as T;
  };
  const { targetId } = await send<{ targetId: string }>('Target.createTarget', {
    url: 'about:blank',
  });
  ({ sessionId } = await send<{ sessionId: string }>('Target.attachToTarget', {
    targetId,
    flatten: true,
  }));
  await send('Page.enable');
  return {
    async open(url, width) {
      const size = { width, height: 900, deviceScaleFactor: 1, mobile: width < 600 };
      await send('Emulation.setDeviceMetricsOverride', size);
      const loaded = new Promise<void>((resolve) => events.set('Page.loadEventFired', resolve));
      await send('Page.navigate', { url });
      await loaded;
    },
    async evaluate<T>(expression: string) {
      const asked = { expression, returnByValue: true };
      const { result } = await send<{ result: { value: T } }>('Runtime.evaluate', asked);
      return result.value;
    },
    async screenshot() {
      const { data } = await send<{ data: string }>('Page.captureScreenshot');
      return Buffer.from(data, 'base64');
    },
    async close() {
      socket.terminate();
      await end();
    },
  };
}
