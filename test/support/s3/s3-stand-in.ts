import { createHash, randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { TestContext } from 'node:test';

/** A request as faults and tests see it. */
export interface S3Request {
  readonly method: string;
  /** Empty for requests to the bucket. */
  readonly key: string;
  readonly query: URLSearchParams;
  readonly bytes: Buffer;
}

/**
 * Something that goes wrong: an error of the store, the content of another object, a body that breaks off in its middle,
 * other bytes, a connection that ends before the request was worked on, or after it and before the response.
 */
export type S3Fault =
  | { readonly status: number; readonly code: string }
  | { readonly instead: string }
  | 'cut body'
  | 'other bytes'
  | 'lost request'
  | 'lost response';

interface Stored {
  readonly bytes: Buffer;
  readonly etag: string;
}

const BUCKET = 'archive';

/** A small S3-compatible store in memory: path style, conditional writes, parts, lists of version 2. */
export class S3StandIn {
  readonly objects = new Map<string, Stored>();
  /** What was asked, in order; a GET counts when its whole body was sent. */
  readonly done: string[] = [];
  /** Decides on each request. */
  fault: (request: S3Request) => S3Fault | undefined = () => undefined;
  /** Keys that a list shows by now. */
  isListed: (key: string) => boolean = () => true;
  ignoresConditions = false;
  /** Bytes that fit. */
  quota = Number.POSITIVE_INFINITY;
  /** Small pages, so that every list has several. */
  pageSize = 5;
  readonly #uploads = new Map<string, { key: string; parts: Map<number, Buffer> }>();
  readonly #server = createServer((request, response) => {
    this.#answer(request, response).catch((error: unknown) => response.destroy(error as Error));
  });

  static async start(t: TestContext): Promise<S3StandIn> {
    const store = new S3StandIn();
    store.#server.listen(0, '127.0.0.1');
    await once(store.#server, 'listening');
    t.after(async () => {
      store.#server.closeAllConnections();
      store.#server.close();
      await once(store.#server, 'close');
    });
    return store;
  }

  get endpoint(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** Puts an object there, as another program would. */
  set(key: string, bytes: Buffer): void {
    this.objects.set(key, { bytes, etag: `"${digest(bytes, 'md5', 'hex')}"` });
  }

  /** Begins an upload in parts. Returns its id. */
  beginUpload(key: string): string {
    const id = randomUUID();
    this.#uploads.set(id, { key, parts: new Map() });
    return id;
  }

  /** Uploads that did not come to their end. */
  get openUploads(): number {
    return this.#uploads.size;
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const url = new URL(request.url ?? '', this.endpoint);
    const [bucket = '', ...parts] = url.pathname.slice(1).split('/');
    const bytes = await bodyOf(request);
    const key = decodeURIComponent(parts.join('/'));
    const asked = { method: request.method ?? '', key, query: url.searchParams, bytes };
    const fault = this.fault(asked);
    if (fault === 'lost request') return void request.socket.destroy();
    if (typeof fault === 'object' && 'status' in fault) {
      return refuse(response, fault.status, fault.code);
    }
    if (bucket !== BUCKET) return refuse(response, 404, 'NoSuchBucket');
    if (fault === 'lost response') {
      this.#work(asked, request, new Answer());
      return void request.socket.destroy();
    }
    const answer = new Answer();
    this.#work(asked, request, answer);
    if (typeof fault === 'object') {
      answer.body = this.objects.get(fault.instead)?.bytes ?? Buffer.alloc(0);
    }
    if (fault === 'other bytes') answer.body = Buffer.from(answer.body).reverse();
    answer.headers['content-length'] = answer.body.length;
    response.writeHead(answer.status, answer.headers);
    if (fault === 'cut body') {
      response.write(answer.body.subarray(0, answer.body.length / 2));
      return void setImmediate(() => response.destroy());
    }
    if (request.method === 'HEAD') response.end();
    else response.end(answer.body);
    if (request.method === 'GET' && key !== '' && answer.status === 200) {
      this.done.push(`GET ${key}`);
    }
  }

  #work(
    { method, key, query, bytes }: S3Request,
    { headers }: IncomingMessage,
    answer: Answer,
  ): Answer {
    if (key === '') return this.#ofBucket(method, query, answer);
    if (method === 'POST' && query.has('uploads')) {
      const id = this.beginUpload(key);
      return answer.xml(
        `<InitiateMultipartUploadResult><Bucket>${BUCKET}</Bucket><Key>${escaped(key)}</Key><UploadId>${id}</UploadId></InitiateMultipartUploadResult>`,
      );
    }
    const id = query.get('uploadId');
    if (id !== null) return this.#ofUpload(method, id, query, bytes, answer);
    if (method === 'PUT') return this.#put(key, bytes, headers, answer);
    const found = this.objects.get(key);
    if (method === 'DELETE') {
      this.objects.delete(key);
      this.done.push(`DELETE ${key}`);
      answer.status = 204;
    } else if (found === undefined) answer.refuse(404, 'NoSuchKey');
    else {
      answer.body = found.bytes;
      answer.headers.etag = found.etag;
    }
    return answer;
  }

  #put(key: string, bytes: Buffer, headers: IncomingMessage['headers'], answer: Answer): Answer {
    const found = this.objects.get(key);
    const [none, match] = [headers['if-none-match'], headers['if-match']];
    const isRefused =
      (none === '*' && found !== undefined) || (match !== undefined && found?.etag !== match);
    if (isRefused && !this.ignoresConditions) return answer.refuse(412, 'PreconditionFailed');
    const sum = headers['x-amz-checksum-sha256'];
    if (sum !== undefined && sum !== digest(bytes, 'sha256', 'base64')) {
      return answer.refuse(400, 'BadDigest');
    }
    if (this.#isFull(bytes.length)) return answer.refuse(507, 'QuotaExceeded');
    answer.headers.etag = this.#store(key, bytes);
    return answer;
  }

  #isFull(bytes: number): boolean {
    let used = bytes;
    for (const one of this.objects.values()) used += one.bytes.length;
    return used > this.quota;
  }

  #store(key: string, bytes: Buffer): string {
    this.set(key, bytes);
    this.done.push(`PUT ${key}`);
    return this.objects.get(key)?.etag ?? '';
  }

  #ofUpload(
    method: string,
    id: string,
    query: URLSearchParams,
    bytes: Buffer,
    answer: Answer,
  ): Answer {
    const upload = this.#uploads.get(id);
    if (upload === undefined) return answer.refuse(404, 'NoSuchUpload');
    if (method === 'PUT') {
      if (this.#isFull(bytes.length)) return answer.refuse(507, 'QuotaExceeded');
      upload.parts.set(Number(query.get('partNumber')), bytes);
      answer.headers.etag = `"${digest(bytes, 'md5', 'hex')}"`;
      return answer;
    }
    this.#uploads.delete(id);
    if (method === 'DELETE') {
      answer.status = 204;
      return answer;
    }
    const parts = [...upload.parts].sort(([a], [b]) => a - b).map(([, part]) => part);
    const etag = escaped(this.#store(upload.key, Buffer.concat(parts)));
    return answer.xml(
      `<CompleteMultipartUploadResult><Bucket>${BUCKET}</Bucket><Key>${escaped(upload.key)}</Key><ETag>${etag}</ETag></CompleteMultipartUploadResult>`,
    );
  }

  #ofBucket(method: string, query: URLSearchParams, answer: Answer): Answer {
    const prefix = query.get('prefix') ?? '';
    if (method !== 'GET') return answer.refuse(501, 'NotImplemented');
    if (query.has('uploads')) {
      const uploads = [...this.#uploads].filter(([, { key }]) => key.startsWith(prefix));
      const listed = uploads.map(
        ([id, { key }]) => `<Upload><Key>${escaped(key)}</Key><UploadId>${id}</UploadId></Upload>`,
      );
      return answer.xml(
        `<ListMultipartUploadsResult><IsTruncated>false</IsTruncated>${listed.join('')}</ListMultipartUploadsResult>`,
      );
    }
    const keys = [...this.objects.keys()].filter(
      (key) => key.startsWith(prefix) && this.isListed(key),
    );
    const after = query.get('continuation-token') ?? '';
    const rest = keys.sort().filter((key) => key > after);
    const page = rest.slice(0, this.pageSize);
    const isMore = rest.length > page.length;
    const listed = page.map(
      (key) =>
        `<Contents><Key>${escaped(key)}</Key><Size>${this.objects.get(key)?.bytes.length ?? 0}</Size></Contents>`,
    );
    const next = isMore
      ? `<NextContinuationToken>${escaped(page.at(-1) ?? '')}</NextContinuationToken>`
      : '';
    return answer.xml(
      `<ListBucketResult><IsTruncated>${isMore}</IsTruncated>${next}${listed.join('')}</ListBucketResult>`,
    );
  }
}

class Answer {
  status = 200;
  readonly headers: Record<string, string | number> = {};
  body: Buffer = Buffer.alloc(0);

  xml(text: string): this {
    this.headers['content-type'] = 'application/xml';
    this.body = Buffer.from(`<?xml version="1.0" encoding="UTF-8"?>${text}`);
    return this;
  }

  refuse(status: number, code: string): this {
    this.status = status;
    return this.xml(errorXml(code));
  }
}

const errorXml = (code: string) => `<Error><Code>${code}</Code><Message>${code}</Message></Error>`;

function refuse(response: ServerResponse, status: number, code: string): void {
  const body = `<?xml version="1.0" encoding="UTF-8"?>${errorXml(code)}`;
  response.writeHead(status, { 'content-type': 'application/xml' }).end(body);
}

const escaped = (text: string) =>
  text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('"', '&quot;');

const digest = (bytes: Buffer, name: string, form: 'hex' | 'base64') =>
  createHash(name).update(bytes).digest(form);

/** The content of a request: as it is, or out of chunks with a trailer. */
async function bodyOf(request: IncomingMessage): Promise<Buffer> {
  const pieces: Buffer[] = [];
  for await (const piece of request) pieces.push(piece as Buffer);
  const raw = Buffer.concat(pieces);
  if (!String(request.headers['x-amz-content-sha256']).startsWith('STREAMING')) return raw;
  const chunks: Buffer[] = [];
  for (let at = 0; ; ) {
    const end = raw.indexOf('\r\n', at);
    const size = Number.parseInt(raw.toString('latin1', at, end), 16);
    if (!(size > 0)) return Buffer.concat(chunks);
    chunks.push(raw.subarray(end + 2, end + 2 + size));
    at = end + 2 + size + 2;
  }
}
