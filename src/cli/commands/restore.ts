import { restore } from '../../archive/sealing/life.js';
import { isOfKind } from '../../archive/sealing/plan.js';
import { doOverlap } from '../../kernel/span.js';
import type { PartitionInfo } from '../../store/index.js';
import { command, flag, required } from '../command.js';
import { lifeKindsArgument, lifeRulesOf, partitions, workOnLives } from '../life.js';
import { coldOf } from '../opening/database.js';
import { instantArgument, JSON_DOCUMENT } from '../options.js';
import { countOf } from '../output.js';
import { selectSpan } from '../selection.js';

/**
 * Brings the archived partitions of a span back into the database, and deletes their files if asked:
 * also of those that came back earlier.
 */
export default command({
  options: {
    kinds: required('--kind <list>', 'only these; separate several by commas', lifeKindsArgument),
    from: required('--from <time>', 'from this time on', instantArgument),
    to: required('--to <time>', 'up to this time', instantArgument),
    isRemoving: flag('--remove-files', 'delete the files afterwards'),
    json: JSON_DOCUMENT,
  },
  help: `
  tapekeep restore --kind trades --from 2026-01-01 --to 2026-02-01
  tapekeep restore --kind candles --from 2025-12-01 --to 2026-01-01 --remove-files

Restores every partition that the range touches. Rows must match the checksum of the sealing. A daemon leaves them
in the database for cold.after. The files stay and serve again if the partition leaves with the same rows;
--remove-files deletes them, also those of restored partitions.`,
  needs: partitions,
  async run(look, { kinds, from, to, isRemoving, json }) {
    const { config } = look.session;
    const { fromMs = 0, toMs = look.nowMs } = selectSpan({ from, to }, look.nowMs);
    const isChosen = (partition: PartitionInfo) =>
      isOfKind(partition, kinds) && doOverlap(partition.span, { fromMs, toMs });
    const partitions = (await look.store.sealing.partitions()).filter(isChosen);
    const expired = partitions.filter(({ state }) => state === 'expired').length;
    const gone =
      expired === 0
        ? ''
        : `; ${countOf(expired, 'partition')} of it ${expired === 1 ? 'is' : 'are'} expired`;
    return await workOnLives(look, {
      isJson: json,
      nothing: `Nothing to do: no partition of this time range is archived${gone} ("tapekeep partitions" lists them).`,
      inTheEnd: ({ outcomes }) =>
        !isRemoving &&
        outcomes.some(({ became }) => became === 'restored') &&
        `Their files stay in ${coldOf(config).name}: they are not read now, and serve again when the partitions leave. The same command with --remove-files deletes them.`,
      rules: lifeRulesOf(config),
      isChosen,
      run: (work) => restore(work, isRemoving),
    });
  },
});
