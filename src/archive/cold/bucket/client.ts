import { randomBytes } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { readFile } from 'node:fs/promises';
import type { Readable } from 'node:stream';
import type { S3Client } from '@aws-sdk/client-s3';
import type { Clock } from '../../../kernel/clock.js';
import type { Random } from '../../../kernel/random.js';
import { retry } from '../../../kernel/retry.js';
import { ColdError, inColdWords } from '../../errors.js';
import type { FileSums } from '../folder.js';
import type { ColdText } from '../storage.js';
import { asBucketError, isPassing } from './errors.js';

/** Address of a bucket. Credentials come from the usual places of the SDK. */
export interface BucketPlace {
  /** `s3://bucket` or `s3://bucket/prefix`. */
  readonly url: string;
  /** Address of the store; null: AWS. */
  readonly endpoint: string | null;
  /** Null: as the SDK finds it. */
  readonly region: string | null;
  /** True: the bucket is in the path and not in the host name. */
  readonly isPathStyle: boolean;
}

/** Time and chance. */
export interface BucketTools {
  readonly clock: Clock;
  readonly random: Random;
  /** Tries of a request, beyond those of the SDK. */
  readonly tries?: number;
}

/** Sent in one request up to this size, in parts beyond it. */
const PART_BYTES = 8 * 1024 * 1024;
const PARTS_AT_A_TIME = 4;
/** Parts of one object; stores take 10,000. */
const PARTS = 9_000;
/** Longest text. */
export const TEXT_BYTES = 256 * 1024 * 1024;
/** Start of the names of objects that are written to see how a store answers. */
export const PROBE = '.probe-';
const LISTED_AT_A_TIME = 1000;
/** Interrupted uploads that are looked through; more wait for the next time. */
const MAX_PAGES = 20;
/** A request, without the body of a response. */
const REQUEST_MS = 60_000;
const CONNECT_MS = 10_000;
/** Time without a byte. */
const IDLE_MS = 30_000;
const TRIES = 4;
/** Tries of the SDK within one of ours: for parts, so that an upload does not start again. */
const SDK_TRIES = 3;
const BACKOFF = { baseMs: 300, capMs: 5_000 };

type Sdk = typeof import('@aws-sdk/client-s3');

/** Requests to one bucket, below one prefix, with bounded time and tries. Methods throw ColdError. */
export class BucketClient {
  readonly name: string;
  readonly #place: BucketPlace;
  readonly #tools: BucketTools;
  readonly #bucket: string;
  readonly #prefix: string;
  #opened: Promise<{ readonly sdk: Sdk; readonly client: S3Client }> | undefined;

  constructor(place: BucketPlace, tools: BucketTools) {
    this.#place = place;
    this.#tools = tools;
    const [bucket = '', ...parts] = place.url.replace(/^s3:\/\//, '').split('/');
    this.#bucket = bucket;
    this.#prefix = parts.filter((part) => part !== '').join('/');
    this.name = ['s3:/', bucket, this.#prefix].filter(Boolean).join('/');
  }

  at(path: string): string {
    return `${this.name}/${path}`;
  }

  /** The SDK is loaded by the first request: it takes half a second. */
  async #open() {
    this.#opened ??= this.#load().catch((error: unknown) => {
      this.#opened = undefined;
      throw error;
    });
    return await this.#opened;
  }

  async #load() {
    const sdk = await import('@aws-sdk/client-s3');
    const { endpoint, region, isPathStyle } = this.#place;
    const client = new sdk.S3Client({
      // Other stores than AWS take any.
      ...(region !== null ? { region } : endpoint !== null && { region: 'us-east-1' }),
      ...(endpoint !== null && { endpoint }),
      forcePathStyle: isPathStyle,
      maxAttempts: SDK_TRIES,
      requestHandler: {
        ...{ connectionTimeout: CONNECT_MS, socketTimeout: IDLE_MS },
        ...{ requestTimeout: REQUEST_MS, throwOnRequestTimeout: true },
      },
    });
    return { sdk, client };
  }

  /** Runs a request, again where that may help. */
  async #try<T>(
    path: string,
    signal: AbortSignal | undefined,
    work: (sdk: Sdk, client: S3Client, to: { Bucket: string; Key: string }) => Promise<T>,
  ): Promise<T> {
    const { clock, random, tries } = this.#tools;
    const to = { Bucket: this.#bucket, Key: this.#keyOf(path) };
    const limits = { ...BACKOFF, maxAttempts: tries ?? TRIES, isRetryable: isPassing };
    return await retry({ ...limits, clock, random, ...(signal && { signal }) }, async () => {
      try {
        const { sdk, client } = await this.#open();
        return await work(sdk, client, to);
      } catch (error) {
        signal?.throwIfAborted();
        throw asBucketError(error, this.at(path));
      }
    });
  }

  #keyOf(path: string): string {
    return this.#prefix === '' ? path : `${this.#prefix}/${path}`;
  }

  /** Reads an object, once more from its start where the body breaks off. @param take gets the body of each try */
  async read<T>(
    path: string,
    signal: AbortSignal | undefined,
    take: (body: Readable, bytes: number | undefined, version: string) => Promise<T>,
  ): Promise<T> {
    return await this.#try(path, signal, async (sdk, client, to) => {
      const options = signal === undefined ? {} : { abortSignal: signal };
      const { Body, ContentLength, ETag } = await client.send(
        new sdk.GetObjectCommand(to),
        options,
      );
      const body = Body as Readable;
      try {
        return await take(body, ContentLength, ETag ?? '');
      } catch (error) {
        // A checksum that the store sent does not match the body that came.
        if (!/^Checksum mismatch/.test(String((error as Error).message))) throw error;
        const text = `the body of ${this.at(path)} differs from the checksum that the store sent`;
        throw new ColdError('cold_damaged', text, { cause: error, action: 'retry' });
      } finally {
        body.destroy();
      }
    });
  }

  async readText(path: string, maxBytes: number): Promise<ColdText> {
    return await this.read(path, undefined, async (body, bytes, version) => {
      const pieces: Buffer[] = [];
      let length = 0;
      for await (const piece of body) {
        length += (piece as Buffer).length;
        if (length > maxBytes) {
          throw new ColdError('cold_damaged', `${this.at(path)} has over ${maxBytes} bytes`);
        }
        pieces.push(piece as Buffer);
      }
      if (bytes !== undefined && bytes !== length) throw shortBody(this.at(path), length, bytes);
      return { text: Buffer.concat(pieces).toString('utf8'), version };
    });
  }

  /** Writes an object with the content of a file. Its checksum goes along, so that the store refuses other bytes. */
  async upload(from: string, path: string, sums: FileSums, signal?: AbortSignal): Promise<void> {
    if (sums.bytes > PART_BYTES) {
      return await this.uploadParts(path, () => createReadStream(from), sums.bytes, signal);
    }
    await this.uploadWhole(path, await inColdWords(from, () => readFile(from)), sums, signal);
  }

  /** Writes an object of one part. */
  async uploadWhole(path: string, body: Buffer, { sha256 }: FileSums, signal?: AbortSignal) {
    const options = signal === undefined ? {} : { abortSignal: signal };
    await this.#try(path, signal, async (sdk, client, to) => {
      const whole = { Body: body, ChecksumSHA256: base64Of(sha256) };
      await client.send(new sdk.PutObjectCommand({ ...to, ...whole }), options);
    });
  }

  /**
   * Writes an object part by part, with a few of them in memory.
   *
   * @param open gives the content to each try
   * @param bytes its length, or an upper bound
   */
  async uploadParts(
    path: string,
    open: () => Readable,
    bytes: number,
    signal?: AbortSignal,
  ): Promise<void> {
    await this.#try(path, signal, async (_, client, to) => {
      const { Upload } = await import('@aws-sdk/lib-storage');
      const body = open();
      const upload = new Upload({
        client,
        params: { ...to, Body: body, ChecksumAlgorithm: 'SHA256' },
        partSize: Math.max(PART_BYTES, Math.ceil(bytes / PARTS)),
        ...{ queueSize: PARTS_AT_A_TIME, leavePartsOnError: false },
      });
      const abort = () => void upload.abort().catch(() => undefined);
      signal?.addEventListener('abort', abort, { once: true });
      try {
        await upload.done();
      } finally {
        signal?.removeEventListener('abort', abort);
        body.destroy();
      }
    });
  }

  /** Writes a small object if a condition holds. Returns its version. @throws ColdError `cold_conflict` */
  async write(path: string, text: string, condition: WriteCondition): Promise<string> {
    try {
      return await this.#try(path, undefined, async (sdk, client, to) => {
        const command = new sdk.PutObjectCommand({
          ...to,
          ...condition,
          Body: Buffer.from(text),
          ChecksumAlgorithm: 'SHA256',
        });
        return (await client.send(command)).ETag ?? '';
      });
    } catch (error) {
      if (!(error instanceof ColdError) || error.code !== 'cold_conflict') throw error;
      // An earlier try may have arrived whose response was lost.
      const there = await this.readText(path, TEXT_BYTES).catch(() => undefined);
      if (there?.text !== text) throw error;
      return there.version;
    }
  }

  /** @throws ColdError `cold_refused` if the store takes writes whose condition does not hold */
  async assertConditions(): Promise<void> {
    const path = `${PROBE}${randomBytes(6).toString('hex')}`;
    const isRefused = async (condition: WriteCondition) => {
      try {
        await this.write(path, 'other', condition);
        return false;
      } catch (error) {
        if (error instanceof ColdError && error.code === 'cold_conflict') return true;
        throw error;
      }
    };
    try {
      const version = await this.write(path, 'one', { IfNoneMatch: '*' });
      const isKept =
        (await isRefused({ IfNoneMatch: '*' })) &&
        (await isRefused({ IfMatch: '"00000000000000000000000000000000"' }));
      if (!isKept) {
        const text = `the store of ${this.name} ignores conditional writes (If-None-Match, If-Match), so that two archives could overwrite each other: nothing is archived there. Use a store that has them`;
        throw new ColdError('cold_refused', text);
      }
      await this.write(path, 'two', { IfMatch: version });
    } finally {
      await this.remove(path).catch(() => undefined);
    }
  }

  async *list(prefix: string): AsyncGenerator<string> {
    const start = this.#keyOf('');
    for (let from: string | undefined; ; ) {
      const page = await this.#try(prefix, undefined, async (sdk, client, { Bucket, Key }) => {
        const rest = from === undefined ? {} : { ContinuationToken: from };
        const asked = { Bucket, Prefix: Key, MaxKeys: LISTED_AT_A_TIME, ...rest };
        return await client.send(new sdk.ListObjectsV2Command(asked));
      });
      for (const { Key = '' } of page.Contents ?? []) {
        // Some stores keep folders as objects.
        if (!Key.endsWith('/')) yield Key.slice(start.length);
      }
      from = page.IsTruncated === true ? page.NextContinuationToken : undefined;
      if (from === undefined) return;
    }
  }

  async isThere(path: string): Promise<boolean> {
    try {
      await this.#try(path, undefined, async (sdk, client, to) => {
        await client.send(new sdk.HeadObjectCommand(to));
      });
      return true;
    } catch (error) {
      if (error instanceof ColdError && error.code === 'cold_missing') return false;
      throw error;
    }
  }

  async remove(path: string): Promise<void> {
    await this.#try(path, undefined, async (sdk, client, to) => {
      await client.send(new sdk.DeleteObjectCommand(to));
    });
  }

  /** Ends uploads that did not come to their end: their parts take space. @param prefix of their paths */
  async abortUploads(prefix = ''): Promise<void> {
    for (let page = 0; page < MAX_PAGES; page += 1) {
      const { uploads, isMore } = await this.uploads(prefix);
      for (const { path, id } of uploads) {
        await this.#try(path, undefined, async (sdk, client, to) => {
          await client.send(new sdk.AbortMultipartUploadCommand({ ...to, UploadId: id }));
        }).catch((error: unknown) => {
          // Another process has ended it.
          if (!(error instanceof ColdError) || error.code !== 'cold_missing') throw error;
        });
      }
      if (!isMore || uploads.length === 0) return;
    }
  }

  /** Some of the uploads that did not come to their end. @param prefix of their paths */
  async uploads(prefix = '') {
    const start = this.#keyOf(prefix);
    return await this.#try('', undefined, async (sdk, client, { Bucket }) => {
      const asked = { Bucket, Prefix: start };
      const { Uploads = [], IsTruncated } = await client.send(
        new sdk.ListMultipartUploadsCommand(asked),
      );
      const own = Uploads.filter(({ Key = '' }) => Key.startsWith(start));
      const base = this.#keyOf('').length;
      const uploads = own.map(({ Key = '', UploadId: id }) => ({ path: Key.slice(base), id }));
      return { uploads, isMore: IsTruncated === true };
    });
  }
}

/** Condition of a write. */
export type WriteCondition = { readonly IfNoneMatch: '*' } | { readonly IfMatch: string };

const base64Of = (hex: string) => Buffer.from(hex, 'hex').toString('base64');

/** A body that broke off. */
export function shortBody(at: string, came: number, bytes: number): ColdError {
  const text = `the body of ${at} broke off after ${came} of ${bytes} bytes`;
  return new ColdError('cold_unreachable', text);
}
