import { createHash, createHmac, pbkdf2Sync } from 'node:crypto';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import type { TestContext } from 'node:test';
import { SERVE_USER } from '../../../src/archive/serve/login.js';
import { IDENTITY, NO_POSTGRES, PASSWORD } from '../worlds/served-world.js';

/** A message of the server. */
export interface Message {
  readonly type: string;
  readonly body: Buffer;
}

const int32 = (value: number) => {
  const bytes = Buffer.alloc(4);
  bytes.writeInt32BE(value);
  return bytes;
};
export const cstring = (text: string) => Buffer.from(`${text}\0`);

/** A message of the client. */
export function message(type: string, ...parts: readonly Buffer[]): Buffer {
  const body = Buffer.concat(parts);
  return Buffer.concat([Buffer.from(type), int32(body.length + 4), body]);
}

/** Speaks the protocol byte by byte. */
export class RawClient {
  readonly socket: Socket;
  #pending = Buffer.alloc(0);
  #isEnded = false;
  #wake: () => void = () => undefined;

  private constructor(socket: Socket) {
    this.socket = socket;
    socket.on('data', (piece: Buffer) => {
      this.#pending = Buffer.concat([this.#pending, piece]);
      this.#wake();
    });
    const end = () => {
      this.#isEnded = true;
      this.#wake();
    };
    socket.on('error', end);
    socket.on('close', end);
    socket.on('end', end);
  }

  static async open(t: TestContext, port: number): Promise<RawClient> {
    const socket = connect(port, '127.0.0.1');
    const client = new RawClient(socket);
    t.after(() => socket.destroy());
    await once(socket, 'connect');
    return client;
  }

  /** Connects and logs in. */
  static async login(t: TestContext, port: number, given: Readonly<Record<string, string>> = {}) {
    const client = await RawClient.open(t, port);
    const { password = PASSWORD, ...parameters } = given;
    client.startup({
      ...{ user: SERVE_USER, database: IDENTITY, application_name: `${NO_POSTGRES} test` },
      ...parameters,
    });
    const first = await client.next();
    if (first?.type === 'R') await client.#prove(password);
    return { client, first, last: await client.until('Z', 'E') };
  }

  startup(parameters: Readonly<Record<string, string>>, version = 196_608): void {
    const fields = Object.entries(parameters).flatMap((one) => one.map(cstring));
    const body = Buffer.concat([int32(version), ...fields, Buffer.from([0])]);
    this.socket.write(Buffer.concat([int32(body.length + 4), body]));
  }

  async #prove(password: string): Promise<void> {
    const bare = 'n=,r=clientnonce';
    const initial = Buffer.from(`n,,${bare}`);
    this.send(message('p', cstring('SCRAM-SHA-256'), int32(initial.length), initial));
    const challenge = await this.next();
    const text = challenge?.body.toString('utf8', 4) ?? '';
    const [, nonce = '', salt = '', rounds = '1'] = /^r=(.*),s=(.*),i=(\d+)$/.exec(text) ?? [];
    const salted = pbkdf2Sync(password, Buffer.from(salt, 'base64'), Number(rounds), 32, 'sha256');
    const key = createHmac('sha256', salted).update('Client Key').digest();
    const stored = createHash('sha256').update(key).digest();
    const plain = `c=biws,r=${nonce}`;
    const sign = createHmac('sha256', stored).update(`${bare},${text},${plain}`).digest();
    const proof = Buffer.from(key.map((byte, at) => byte ^ (sign[at] ?? 0))).toString('base64');
    this.send(message('p', Buffer.from(`${plain},p=${proof}`)));
  }

  send(...bytes: readonly Buffer[]): void {
    this.socket.write(Buffer.concat(bytes));
  }

  async #take(count: number): Promise<Buffer | null> {
    while (this.#pending.length < count) {
      if (this.#isEnded) return null;
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
    const taken = this.#pending.subarray(0, count);
    this.#pending = this.#pending.subarray(count);
    return taken;
  }

  /** The next message; null when the connection has ended. */
  async next(): Promise<Message | null> {
    const head = await this.#take(5);
    if (head === null) return null;
    const body = await this.#take(head.readInt32BE(1) - 4);
    return body === null ? null : { type: head.toString('latin1', 0, 1), body };
  }

  /** Messages up to one of some types, or to the end of the connection. */
  async until(...types: readonly string[]): Promise<Message[]> {
    const all: Message[] = [];
    for (;;) {
      const one = await this.next();
      if (one === null) return all;
      all.push(one);
      if (types.includes(one.type)) return all;
    }
  }

  /** Answers of a simple query, as letters, with what an error says. */
  async ask(
    sql: string,
  ): Promise<{ letters: string; code: string | undefined; tags: string[]; status: string }> {
    this.send(message('Q', cstring(sql)));
    return summaryOf(await this.until('Z'));
  }
}

export function summaryOf(all: readonly Message[]) {
  const error = all.find(({ type }) => type === 'E');
  const fields = (error?.body.toString('utf8') ?? '').split('\0');
  return {
    letters: all.map(({ type }) => type).join(''),
    code: fields.find((one) => one.startsWith('C'))?.slice(1),
    text: fields.find((one) => one.startsWith('M'))?.slice(1) ?? '',
    tags: all
      .filter(({ type }) => type === 'C')
      .map(({ body }) => body.toString('utf8', 0, body.length - 1)),
    status: all.at(-1)?.type === 'Z' ? (all.at(-1)?.body.toString('latin1') ?? '') : '',
  };
}
