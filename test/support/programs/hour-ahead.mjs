/**
 * Loaded before a program (`NODE_OPTIONS=--import`): its wall clock is off by HOURS_AHEAD. The monotonic clock is not.
 */
const aheadMs = Number(process.env.HOURS_AHEAD) * 3_600_000;
const RealDate = Date;

globalThis.Date = class extends RealDate {
  constructor(...of) {
    if (of.length === 0) super(RealDate.now() + aheadMs);
    else super(...of);
  }

  static now() {
    return RealDate.now() + aheadMs;
  }
};
