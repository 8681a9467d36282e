import { sleep } from '../../kernel/clock.js';
import { TapekeepError } from '../../kernel/errors.js';
import { command } from '../command.js';
import { standbyText } from '../gaps.js';
import { archive, shareOf } from '../opening/database.js';
import { printable, textOf } from '../output.js';

/** A holder stores what it has within this time, and a standby takes the lock soon after. */
const LIMIT_MS = 30_000;
const LOOK_EVERY_MS = 250;

/** Asks the daemon that holds the archive to let a standby go on, before its machine is updated. */
export default command({
  options: {},
  help: `
Asks the daemon that collects to hand the archive over to one that stands by. The daemon stores what it received, lets
the archive go and stands by itself. Waits until the other one has it; the log of either says so. The daemon does
the same when it is stopped while another one stands by.

Where daemons divide the markets, collector.share names the share.

  tapekeep handover`,
  needs: archive(),
  async run({ session, store, signal }) {
    const { clock, config } = session;
    const share = shareOf(config);
    const of = share.isWhole ? '' : ` of share ${share}`;
    const first = (await store.standbys()).find((one) => one.share === share.number);
    if (first === undefined) {
      throw refused(
        `no daemon${of} stands by: start one on this archive first (docs/guides/standby.md)`,
      );
    }
    const token = await store.askHandover(share);
    if (token === undefined) {
      throw refused(`no daemon${of} holds the archive at present; the one that stands by takes it`);
    }
    const endMs = clock.monotonicMs() + LIMIT_MS;
    while (clock.monotonicMs() < endMs) {
      await sleep(clock, LOOK_EVERY_MS, signal);
      const { holders } = await store.holders();
      const holder = holders.find((one) => one.share === share.number);
      if (holder === undefined || holder.token === token) continue;
      const text = `Handed over; ${printable(holder.machine ?? holder.application)} has the archive.`;
      process.stdout.write(textOf([text, `It stood by on ${standbyText(first)}.`]));
      return;
    }
    throw refused('the archive did not change hands within 30 s: see the log of its holder');
  },
});

function refused(text: string): TapekeepError {
  return new TapekeepError('handover_refused', text);
}
