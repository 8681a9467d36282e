import { codeOf, messageOf } from '../../../kernel/errors.js';
import { ColdError } from '../../errors.js';

/** Facts of an error of the SDK. */
interface Answer {
  readonly name: string;
  /** HTTP status; undefined if there was no response. */
  readonly status: number | undefined;
  /** Region of the bucket, if the store names it. */
  readonly region: string | undefined;
}

function answerOf(error: unknown): Answer {
  const { name, Code, $metadata, $response } = Object(error) as {
    name?: string;
    Code?: string;
    $metadata?: { httpStatusCode?: number };
    $response?: { headers?: Record<string, string> };
  };
  return {
    name: Code ?? name ?? '',
    status: $metadata?.httpStatusCode,
    region: $response?.headers?.['x-amz-bucket-region'],
  };
}

const NO_CREDENTIALS = new Set(['CredentialsProviderError', 'TokenProviderError']);
const NO_BUCKET = new Set(['NoSuchBucket', 'NotFoundBucket']);
const WRONG_REGION = new Set(['PermanentRedirect', 'AuthorizationHeaderMalformed']);
const FULL = new Set(['QuotaExceeded', 'XMinioStorageFull', 'InsufficientStorage']);
/** Two writers met: the next try shows who was first. */
const MET = 409;
const NO_NETWORK = new Set([
  ...['ECONNREFUSED', 'ECONNRESET', 'ENOTFOUND', 'EAI_AGAIN', 'EPIPE', 'ETIMEDOUT', 'ENETUNREACH'],
  ...['EHOSTUNREACH', 'ERR_STREAM_PREMATURE_CLOSE', 'ECONNABORTED'],
]);
const NO_TIME = new Set(['TimeoutError', 'RequestTimeout']);
const NO_CHECKSUMS = new Set(['BadDigest', 'InvalidDigest', 'XAmzContentSHA256Mismatch']);

/** Rights that the program needs. */
const RIGHTS =
  's3:GetObject, s3:PutObject, s3:DeleteObject, s3:AbortMultipartUpload, s3:ListBucket and s3:ListBucketMultipartUploads';
/** The usual places of credentials. */
const PLACES =
  'the environment (AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY), the profile in ~/.aws, or the role of the machine';

/** Codes that the same request would meet again. */
const LASTING: ReadonlySet<string> = new Set(['cold_disk_full', 'cold_conflict']);

/** True if the same request may succeed later: the store is busy or away, or the body was damaged on its way. */
export function isPassing(error: unknown): boolean {
  return error instanceof ColdError && error.action === 'retry' && !LASTING.has(error.code);
}

/** Names an error of the SDK. Other errors stay as they are. @param at the object or bucket, for people */
export function asBucketError(error: unknown, at: string): unknown {
  if (error instanceof ColdError) return error;
  const { name, status, region } = answerOf(error);
  const cold = (code: ColdError['code'], text: string, action?: 'retry') =>
    new ColdError(code, text, { cause: error, ...(action && { action }) });
  if (NO_CREDENTIALS.has(name)) {
    return cold('cold_refused', `there are no credentials for ${at}: give them by ${PLACES}`);
  }
  if (NO_BUCKET.has(name)) {
    return cold(
      'cold_refused',
      `the bucket of ${at} does not exist: create it, or correct cold.url`,
    );
  }
  if (WRONG_REGION.has(name) || status === 301) {
    const named = region === undefined ? 'the one of the bucket' : region;
    return cold('cold_refused', `${at} is in another region: set cold.region to ${named}`);
  }
  if (status === 404) return cold('cold_missing', `${at} is not there: bring it back from a copy`);
  if (FULL.has(name) || status === 507) {
    const text = `the store has no space left for ${at} (${name}); the partition stays in the database. Raise the quota, or delete what is not needed`;
    return cold('cold_disk_full', text);
  }
  if (status === 412) {
    return cold('cold_conflict', `${at} was written by another process meanwhile (${name})`);
  }
  if (NO_CHECKSUMS.has(name)) {
    return cold('cold_mismatch', `the store received other bytes for ${at} (${name})`, 'retry');
  }
  if (status === 401 || status === 403) {
    const text = `access to ${at} was denied (${name}): check the credentials, and give them ${RIGHTS}`;
    return cold('cold_refused', text);
  }
  if (status === 501) {
    return cold('cold_refused', `the store of ${at} does not implement what is needed (${name})`);
  }
  if (
    status !== undefined &&
    (status >= 500 || status === 429 || status === MET || name === 'SlowDown')
  ) {
    const text = `the store answers ${status} (${name}) for ${at}: it is tried again later`;
    return cold('cold_unreachable', text);
  }
  const code = codeOf(error);
  if (NO_TIME.has(name) || NO_NETWORK.has(code)) {
    const text = `${at} cannot be reached (${NO_TIME.has(name) ? 'timeout' : code}): check the network and cold.endpoint`;
    return cold('cold_unreachable', text);
  }
  if (status !== undefined) {
    const text = `the store refuses a request for ${at} (${status} ${name}: ${messageOf(error)})`;
    return cold('cold_refused', text);
  }
  return error;
}
