import { PassThrough, Readable } from 'node:stream';
import { ZipFile } from 'yazl';

/** Half the time of the default, and a twentieth more bytes of what is written here. */
const LEVEL = 4;
const READABLE_BY_ALL = 0o100_644;

/**
 * A zip archive of one file, as it comes.
 *
 * @param content what the file holds; its errors are those of the reader of this
 * @param madeAt written into the archive
 */
export async function* zipOne(
  name: string,
  content: AsyncIterable<Uint8Array>,
  madeAt: Date,
): AsyncGenerator<Buffer> {
  const zip = new ZipFile();
  const source = Readable.from(content, { objectMode: false });
  const output = new PassThrough();
  const fail = (error: Error) => output.destroy(error);
  source.once('error', fail);
  zip.once('error', fail);
  zip.outputStream.pipe(output);
  zip.addReadStream(source, name, {
    ...{ mtime: madeAt, mode: READABLE_BY_ALL, compressionLevel: LEVEL },
  });
  zip.end();
  try {
    for await (const piece of output) yield piece as Buffer;
  } finally {
    source.destroy();
    output.destroy();
  }
}
