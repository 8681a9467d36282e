import type { StreamRef } from '../../model/batch.js';
import type { ArchivePort } from '../ports.js';

/**
 * The archive for the walk of an exchange with one endpoint of history: what its pages prove of trades they
 * prove of exact times as well. Whatever is claimed, taken back or listed of the one stream is so of the
 * other, so that readers find both, and every trade is downloaded once.
 */
export function provingTimes(
  archive: ArchivePort,
  trades: StreamRef,
  times: StreamRef,
): ArchivePort {
  const isOurs = ({ streamId }: StreamRef) => streamId === trades.streamId;
  return {
    ...archive,
    commit: async (batch, options) => {
      const claims = (batch.claims ?? []).flatMap((claim) =>
        isOurs(claim.stream) ? [claim, { ...claim, stream: times }] : [claim],
      );
      const result = await archive.commit({ ...batch, claims }, options);
      const ranges = result.ranges.filter(({ streamId }) => streamId !== times.streamId);
      return { ...result, ranges };
    },
    revoke: async (stream, span, revocation) => {
      if (isOurs(stream)) await archive.revoke(times, span, revocation);
      return archive.revoke(stream, span, revocation);
    },
    recordGap: async (gap) => {
      if (isOurs(gap.stream)) await archive.recordGap({ ...gap, stream: times });
      return archive.recordGap(gap);
    },
    setCollectFrom: async (streamId, fromMs, reason) => {
      if (streamId === trades.streamId) {
        await archive.setCollectFrom(times.streamId, fromMs, reason);
      }
      return archive.setCollectFrom(streamId, fromMs, reason);
    },
  };
}
