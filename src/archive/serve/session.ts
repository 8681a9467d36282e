import type { DeclareCursorStmt, FetchStmt, Node, SelectStmt, VariableSetStmt } from 'libpg-query';
import { type Clock, startDeadline, unlessAborted } from '../../kernel/clock.js';
import type { ServeEvents } from '../../observe/events.js';
import type { DuckSession } from '../parquet/session.js';
import { placeFiles } from '../segments.js';
import { Cursor } from './cursor.js';
import { asEndpointError, EndpointError, refused, SQLSTATE } from './errors.js';
import { Fields, type Frame, type Frames, type Replies } from './frames.js';
import { describe } from './rows.js';
import {
  type AnalyzeQuestion,
  analyzeQuestion,
  neededFor,
  pagesOf,
  planSelect,
  sourceOf,
} from './select.js';
import { type ColdTables, noTable, type ServedPartition } from './tables.js';
import { Transaction } from './transaction.js';
import { TYPE_OIDS } from './values.js';

/** Limits of a connection. */
export interface SessionLimits {
  /** Rows of one FETCH. */
  readonly fetchRows: number;
  /** Open cursors. A statement over a year of days has one for each of them. */
  readonly cursors: number;
  /** Time that a statement may take, ms. */
  readonly statementMs: number;
}

/** Parts that all connections share. */
export interface SessionServices {
  readonly clock: Clock;
  readonly limits: SessionLimits;
  readonly telemetry: ServeEvents;
  readonly tables: ColdTables;
  /** DuckDB, opened when it is first needed. */
  duck(): Promise<DuckSession>;
  /** Record of an archived partition; undefined if there is none of the name. */
  partitionOf(name: string): Promise<ServedPartition | undefined>;
  /** @throws an error with the parser's message */
  parse(sql: string): readonly Node[];
}

/** Settings that postgres_fdw makes, with the values that are spoken here; null for any. */
const SETTINGS: Readonly<Record<string, RegExp | null>> = {
  search_path: /^pg_catalog$/,
  timezone: /^(?:GMT|UTC|Etc\/UTC)$/i,
  datestyle: /^ISO\b/i,
  intervalstyle: /^postgres$/i,
  extra_float_digits: /^[1-3]$/,
  client_encoding: /^'?UTF-?8'?$/i,
  application_name: null,
};

/** Statements that would change something, by their nodes. */
const WRITES =
  /^(?:Insert|Update|Delete|Merge|Truncate|Copy|Create|Alter|Drop|Grant|Do|Call|Lock|Vacuum)/;
const WRITE_HINT = 'To change rows of an archived day, bring it back first: tapekeep restore.';
const CURSOR_OPTIONS = { binary: 1, scroll: 2, hold: 32 } as const;

/** ALL, as the parser counts it. */
const FETCH_ALL = 2 ** 31 - 1;

/** A statement of the extended protocol with its values. */
interface Portal {
  readonly node: Node | undefined;
  readonly parameters: readonly (string | null)[];
  readonly cursor: Cursor | undefined;
}

/** One connection after its login: reads statements and answers them, one at a time. */
export class Session {
  readonly #services: SessionServices;
  readonly #frames: Frames;
  readonly #out: Replies;
  readonly #transaction = new Transaction();
  readonly #cursors = new Map<string, { readonly cursor: Cursor; depth: number }>();
  /** The cursor that was read last, and the rows that were asked for. */
  #last: Cursor | undefined;
  #lastRows = 0;
  /** Ends the statement that runs. */
  #running: AbortController | undefined;
  #ended: EndpointError | undefined;
  #statement: Node | null | undefined;
  #portal: Portal | undefined;
  /** After an error of the extended protocol all is passed over until Sync. */
  #isSkipping = false;

  constructor(services: SessionServices, frames: Frames, out: Replies) {
    this.#services = services;
    this.#frames = frames;
    this.#out = out;
  }

  /** Ends the statement that runs; the connection goes on. */
  cancel(): void {
    this.#running?.abort(
      new EndpointError(SQLSTATE.cancelled, 'canceling statement due to user request'),
    );
  }

  /** Ends the connection, and the statement that runs, with an error that is reported. */
  end(error: EndpointError): void {
    this.#ended ??= error;
    this.#running?.abort(error);
    this.#frames.stop();
  }

  /** Answers until the connection ends. @throws EndpointError that ends it */
  async run(): Promise<void> {
    try {
      await this.#ready();
      for (;;) {
        const frame = await this.#frames.next();
        if (this.#ended !== undefined) throw this.#ended;
        if (frame === null || frame.type === 'X') return;
        if (this.#isSkipping && frame.type !== 'S') continue;
        await this.#answer(frame);
      }
    } finally {
      this.cancel();
      await this.#closeCursors();
      await this.#portal?.cursor?.close();
    }
  }

  async #answer({ type, body }: Frame): Promise<void> {
    switch (type) {
      case 'Q':
        await this.#guarded(async (signal) => await this.#query(new Fields(body).text(), signal));
        await this.#ready();
        this.#last?.readAhead(this.#lastRows);
        return;
      case 'S':
        this.#isSkipping = false;
        return await this.#ready();
      case 'H':
        return await this.#out.flush(new AbortController().signal);
      case 'P':
      case 'B':
      case 'D':
      case 'E':
      case 'C':
        this.#isSkipping = !(await this.#guarded(
          async (signal) => await this.#extended(type, new Fields(body), signal),
        ));
        return;
      default: {
        const text = `unexpected message "${type}": only what postgres_fdw sends is answered`;
        throw new EndpointError(SQLSTATE.protocol, text, { isFatal: true });
      }
    }
  }

  /** Does a piece of work and reports its error. @returns whether it was done */
  async #guarded(work: (signal: AbortSignal) => Promise<void>): Promise<boolean> {
    const running = new AbortController();
    this.#running = running;
    const { clock, limits } = this.#services;
    const late = () => {
      const text = `the statement took longer than ${Math.round(limits.statementMs / 1000)} s over archived rows`;
      return new EndpointError(SQLSTATE.cancelled, text, { hint: 'Ask for a shorter time range.' });
    };
    using deadline = startDeadline(clock, limits.statementMs, late, running.signal);
    try {
      if (this.#ended !== undefined) throw this.#ended;
      await work(deadline.signal);
      return true;
    } catch (error) {
      const known = asEndpointError(error);
      if (known.isFatal) throw known;
      this.#services.telemetry.statementRefused({
        sqlstate: known.sqlstate,
        message: known.message,
      });
      this.#transaction.fail();
      this.#out.error(known);
      return false;
    } finally {
      this.#running = undefined;
    }
  }

  async #ready(): Promise<void> {
    this.#out.begin('Z').bytes(Buffer.from(this.#transaction.status)).end();
    await this.#out.flush(new AbortController().signal);
  }

  async #query(sql: string, signal: AbortSignal): Promise<void> {
    const statements = this.#services.parse(sql);
    if (statements.length === 0) return this.#out.message('I');
    // A rolled back savepoint is released with it.
    const isOne = statements.length === 1 || statements.every((one) => 'TransactionStmt' in one);
    if (!isOne) throw refused('several statements in one');
    for (const node of statements) {
      const cursor =
        'SelectStmt' in node ? await this.#select(node.SelectStmt, [], signal) : undefined;
      if (cursor !== undefined) describe(this.#out, cursor.outputs, oidOf);
      await this.#execute(node, [], cursor, signal, true);
    }
  }

  async #extended(type: string, fields: Fields, signal: AbortSignal): Promise<void> {
    const out = this.#out;
    switch (type) {
      case 'P': {
        if (fields.text() !== '') throw refused('a named prepared statement');
        const statements = this.#services.parse(fields.text());
        if (statements.length > 1) throw refused('several statements in one');
        this.#statement = statements[0] ?? null;
        return out.message('1');
      }
      case 'B':
        await this.#bind(fields, signal);
        return out.message('2');
      case 'D': {
        const what = fields.letter();
        const outputs = this.#portal?.cursor?.outputs;
        if (what !== 'P') throw refused('a description of a statement');
        return outputs === undefined ? out.message('n') : describe(out, outputs, oidOf);
      }
      case 'E': {
        const portal = this.#portal;
        if (portal === undefined) throw new EndpointError(SQLSTATE.noCursor, 'no such portal');
        this.#portal = undefined;
        if (portal.node === undefined) return out.message('I');
        return await this.#execute(portal.node, portal.parameters, portal.cursor, signal, false);
      }
      default:
        await this.#portal?.cursor?.close();
        this.#portal = undefined;
        return out.message('3');
    }
  }

  async #bind(fields: Fields, signal: AbortSignal): Promise<void> {
    const [portal, statement] = [fields.text(), fields.text()];
    if (portal !== '' || statement !== '') throw refused('a named portal or statement');
    const formats = Array.from({ length: fields.int16() }, () => fields.int16());
    const parameters = Array.from({ length: fields.int16() }, () => {
      const length = fields.int32();
      return length < 0 ? null : fields.bytes(length).toString('utf8');
    });
    const results = Array.from({ length: fields.int16() }, () => fields.int16());
    if ([...formats, ...results].some((one) => one !== 0)) throw refused('the binary format');
    if (this.#statement === undefined) {
      throw new EndpointError('26000', 'no statement was prepared');
    }
    await this.#portal?.cursor?.close();
    const node = this.#statement ?? undefined;
    const cursor =
      node !== undefined && 'SelectStmt' in node
        ? await this.#select(node.SelectStmt, parameters, signal)
        : undefined;
    this.#portal = { node, parameters, cursor };
  }

  async #execute(
    node: Node,
    parameters: readonly (string | null)[],
    cursor: Cursor | undefined,
    signal: AbortSignal,
    isSimple: boolean,
  ): Promise<void> {
    const done = (tag: string) => this.#out.message('C', tag);
    if ('TransactionStmt' in node) {
      const { tag, closesFrom } = this.#transaction.apply(node.TransactionStmt);
      await this.#closeCursors(closesFrom);
      for (const one of this.#cursors.values()) {
        one.depth = Math.min(one.depth, this.#transaction.depth);
      }
      return done(tag);
    }
    this.#transaction.assertUsable();
    if (cursor !== undefined) {
      const rows = await this.#rows(cursor, Number.POSITIVE_INFINITY, signal);
      return done(`SELECT ${rows}`);
    }
    // Only questions of ANALYZE come without a cursor.
    if ('SelectStmt' in node) return this.#answerAnalyze(node.SelectStmt, signal, isSimple);
    if ('DeclareCursorStmt' in node) {
      await this.#declare(node.DeclareCursorStmt, parameters, signal);
      return done('DECLARE CURSOR');
    }
    if ('FetchStmt' in node) {
      if (!isSimple) throw refused('FETCH by the extended protocol');
      return done(await this.#fetch(node.FetchStmt, signal));
    }
    if ('ClosePortalStmt' in node) {
      const { portalname } = node.ClosePortalStmt;
      if (portalname === undefined) await this.#closeCursors();
      else await this.#close(portalname);
      return done('CLOSE CURSOR');
    }
    if ('VariableSetStmt' in node) {
      applySetting(node.VariableSetStmt);
      return done('SET');
    }
    if ('DeallocateStmt' in node) return done('DEALLOCATE ALL');
    if ('DiscardStmt' in node) {
      if (this.#transaction.status !== 'I') {
        throw new EndpointError(
          SQLSTATE.transactionOpen,
          'DISCARD ALL cannot run in a transaction',
        );
      }
      return done('DISCARD ALL');
    }
    throw refusedStatement(Object.keys(node)[0] ?? '');
  }

  async #select(
    select: SelectStmt,
    parameters: readonly (string | null)[],
    signal: AbortSignal,
  ): Promise<Cursor | undefined> {
    this.#transaction.assertUsable();
    if (analyzeQuestion(select) !== undefined) return undefined;
    const { tables } = this.#services;
    const source = sourceOf(select);
    const partition = await this.#partition(source.name);
    const needed = neededFor(partition.table, select, parameters);
    // Files that are read for the first time are checked whole.
    using held = tables.hold();
    const files = await unlessAborted(signal, tables.filesOf(held, partition, needed));
    const duck = await this.#services.duck();
    const relation = await tables.relationOf(duck, partition.table, files);
    const plan = planSelect(select, source, relation, parameters);
    return new Cursor(plan, async (ending) => {
      const again = tables.hold();
      try {
        await placeFiles(again, files);
        return { session: await duck.beside(ending), held: again };
      } catch (error) {
        again[Symbol.dispose]();
        throw error;
      }
    });
  }

  async #partition(name: string): Promise<ServedPartition> {
    const partition = await this.#services.partitionOf(name);
    if (partition === undefined) throw noTable(name);
    return partition;
  }

  async #answerAnalyze(select: SelectStmt, signal: AbortSignal, isSimple: boolean): Promise<void> {
    const question = analyzeQuestion(select);
    if (question === undefined || !isSimple) throw refused('this statement');
    const { name, asks }: AnalyzeQuestion = question;
    const partition = await this.#partition(name);
    const files = await unlessAborted(signal, this.#services.tables.entriesOf(partition));
    const sum = (key: 'bytes' | 'rows') => files.reduce((all, file) => all + file[key], 0);
    const values =
      asks === 'size'
        ? [['?column?', String(pagesOf(sum('bytes')))]]
        : [
            ['reltuples', String(sum('rows'))],
            ['relkind', 'r'],
          ];
    this.#out.begin('T').int16(values.length);
    for (const [column = ''] of values) {
      this.#out
        .text(column)
        .int32(0)
        .int16(0)
        .int32(TYPE_OIDS.unknown)
        .int16(-1)
        .int32(-1)
        .int16(0);
    }
    this.#out.end();
    this.#out.begin('D').int16(values.length);
    for (const [, value = ''] of values) this.#out.int32(value.length).bytes(Buffer.from(value));
    this.#out.end();
    this.#out.message('C', 'SELECT 1');
  }

  async #declare(
    { portalname = '', options = 0, query }: DeclareCursorStmt,
    parameters: readonly (string | null)[],
    signal: AbortSignal,
  ): Promise<void> {
    if (this.#transaction.status === 'I') {
      const text = 'DECLARE CURSOR can only be used in transaction blocks';
      throw new EndpointError(SQLSTATE.noTransaction, text);
    }
    const odd = Object.entries(CURSOR_OPTIONS).find(([, bit]) => (options & bit) !== 0);
    if (odd !== undefined) throw refused(`a cursor declared with ${odd[0].toUpperCase()}`);
    if (this.#cursors.has(portalname)) {
      throw new EndpointError(SQLSTATE.cursorThere, `cursor "${portalname}" already exists`);
    }
    const { cursors: max } = this.#services.limits;
    if (this.#cursors.size >= max) {
      const hint = 'Ask for a shorter time range, or for one table after the other.';
      throw new EndpointError(SQLSTATE.limit, `more than ${max} cursors are open`, { hint });
    }
    if (query === undefined || !('SelectStmt' in query))
      throw refused('a cursor for this statement');
    const cursor = await this.#select(query.SelectStmt, parameters, signal);
    if (cursor === undefined) throw refused('a cursor for this statement');
    this.#cursors.set(portalname, { cursor, depth: this.#transaction.depth });
  }

  #cursor(name: string): Cursor {
    const found = this.#cursors.get(name);
    if (found !== undefined) return found.cursor;
    throw new EndpointError(SQLSTATE.noCursor, `cursor "${name}" does not exist`);
  }

  async #fetch(
    { direction, howMany, portalname = '', ismove }: FetchStmt,
    signal: AbortSignal,
  ): Promise<string> {
    const cursor = this.#cursor(portalname);
    const count = Number(howMany ?? 0);
    if (ismove === true) {
      if (direction !== 'FETCH_BACKWARD' || count < FETCH_ALL) {
        throw refused('MOVE other than BACKWARD ALL');
      }
      await cursor.rewind();
      return 'MOVE 0';
    }
    const max = this.#services.limits.fetchRows;
    const isForward = direction === undefined || direction === 'FETCH_FORWARD';
    if (!isForward || count < 1 || count > max) {
      throw refused(`FETCH of other than 1 to ${max} rows forward`);
    }
    describe(this.#out, cursor.outputs, oidOf);
    if (this.#last !== cursor) this.#last?.rest();
    [this.#last, this.#lastRows] = [cursor, count];
    return `FETCH ${await this.#rows(cursor, count, signal)}`;
  }

  async #rows(cursor: Cursor, max: number, signal: AbortSignal): Promise<number> {
    const { clock, telemetry } = this.#services;
    const startMs = clock.monotonicMs();
    const rows = await cursor.fetch(max, this.#out, signal);
    telemetry.rowsSent({ rows, durationMs: clock.monotonicMs() - startMs });
    return rows;
  }

  async #close(name: string): Promise<void> {
    const cursor = this.#cursor(name);
    this.#cursors.delete(name);
    await cursor.close();
  }

  /** Closes the cursors that were declared at a depth of savepoints, or deeper. */
  async #closeCursors(depth = 0): Promise<void> {
    for (const [name, one] of [...this.#cursors]) {
      if (one.depth >= depth) await this.#close(name);
    }
  }
}

const oidOf = (type: keyof typeof TYPE_OIDS) => TYPE_OIDS[type];

function applySetting({ kind, name = '', args = [], is_local: isLocal }: VariableSetStmt): void {
  const wanted = SETTINGS[name.toLowerCase()];
  const value = args.map((one) => {
    if (!('A_Const' in one)) return '';
    const { sval, ival } = one.A_Const;
    return sval?.sval ?? String(ival?.ival ?? '');
  });
  const isKnown = Object.hasOwn(SETTINGS, name.toLowerCase()) && kind === 'VAR_SET_VALUE';
  const isSpoken = wanted === null || wanted?.test(value.join(', ')) === true;
  if (isKnown && isLocal !== true && isSpoken) return;
  const text = `SET ${name} = ${value.join(', ')}: the endpoint of archived rows takes the settings of postgres_fdw alone`;
  throw new EndpointError(SQLSTATE.badValue, text);
}

function refusedStatement(node: string): EndpointError {
  const name = node.replace(/Stmt$/, '');
  if (WRITES.test(name)) {
    const text = `${name.toUpperCase()}: archived rows are read-only`;
    return new EndpointError(SQLSTATE.readOnly, text, { hint: WRITE_HINT });
  }
  const hint =
    name === 'Explain' ? "Set use_remote_estimate 'false' for the foreign server." : undefined;
  return new EndpointError(
    SQLSTATE.unsupported,
    `${name}: only what postgres_fdw reads with is answered`,
    { hint },
  );
}
