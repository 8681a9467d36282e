import { rm } from 'node:fs/promises';
import { InvalidArgumentError } from 'commander';
import { asDiskFull, OutputError } from '../../archive/errors.js';
import { moveSynced, writeSynced } from '../../archive/files.js';
import { monthSpan, readQuality } from '../../archive/report/quality.js';
import { htmlOf, markdownOf, sheetOf } from '../../archive/report/sheet.js';
import { messageOf } from '../../kernel/errors.js';
import { isoMs } from '../../kernel/timestamp.js';
import { choice, command, option, VERSION } from '../command.js';
import { EXIT_CODES, UsageError } from '../failure.js';
import { archive } from '../opening/database.js';
import { JSON_DOCUMENT } from '../options.js';
import { jsonLine, printable, writeOut } from '../output.js';

const FORMATS = ['html', 'md'] as const;

function monthArgument(text: string): string {
  if (/^\d{4}-(0[1-9]|1[0-2])$/.test(text)) return text;
  throw new InvalidArgumentError('write a month as 2026-01');
}

/** Writes a sheet of data quality for a month. */
export default command({
  options: {
    month: option(
      '--month <month>',
      'such as 2026-01 (default: the last that has ended)',
      monthArgument,
    ),
    format: choice(
      '--format <format>',
      'default: by the end of the name of the file, else md',
      FORMATS,
    ),
    output: option('--output <file>', 'where it goes (default: standard output)'),
    json: JSON_DOCUMENT,
  },
  help: `
Shows continuity and days by condition for each market and kind, incidents, checks against candles, and which
programs collected, with host, version and hash of the settings.

  tapekeep report --month 2026-01 --output quality-2026-01.html`,
  needs: archive(),
  async run({ session, store, nowMs }, { month: asked, format, output, json }) {
    const month = asked ?? isoMs(monthSpan(isoMs(nowMs).slice(0, 7)).fromMs - 1).slice(0, 7);
    if (monthSpan(month).fromMs > nowMs) {
      const advice = `it has not begun: at the exchange it is ${isoMs(nowMs).slice(0, 10)}`;
      throw new UsageError('--month', month, advice);
    }
    const at = { month, nowMs, madeMs: session.clock.wallMs(), version: VERSION };
    const report = await readQuality(store, at);
    const isHtml = format === undefined ? /\.html?$/i.test(output ?? '') : format === 'html';
    const sheet = () => (isHtml ? htmlOf : markdownOf)(sheetOf(report));
    const text = json ? jsonLine(report) : sheet();
    if (output === undefined || output === '-') await writeOut(text);
    else {
      await write(output, text);
      process.stderr.write(`${printable(output)} has the data quality of ${month}\n`);
    }
    return EXIT_CODES.ok;
  },
});

/** Replaces a file, whole or not at all. @throws OutputError, DiskFullError */
async function write(path: string, text: string): Promise<void> {
  const aside = `${path}.new`;
  try {
    // A run that was killed may have left it.
    await rm(aside, { force: true });
    await writeSynced(aside, text);
    await moveSynced(aside, path);
  } catch (error) {
    await rm(aside, { force: true }).catch(() => undefined);
    const failure = asDiskFull(error, path);
    throw failure === error ? new OutputError(path, messageOf(error), error) : failure;
  }
}
