import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import test from 'node:test';
import ts from 'typescript';
import { repositoryPath } from '../../support/repository/repository.js';

/** The package as TypeScript users see it: the built declarations, under its own name. */

const USER = `
import {
  AbortedError, BudgetOverrunError, type ClientEvents, type CreatedOrder, ExchangeClient,
  ExchangeError, NonceFileError, type OrderRequest, RateLimitedError, type Reply, TapekeepError,
  type StateEvent, UnknownOutcomeError, isAborted,
} from 'tapekeep';

const credentials = { apiKey: 'k', secret: 's' };
const exchange = new ExchangeClient({
  baseUrl: 'http://127.0.0.1:8080',
  realtimeUrl: 'ws://127.0.0.1:8080/ws',
  credentials,
  nonces: { folder: '/var/lib/robot' },
});
const inMemory = new ExchangeClient({ baseUrl: 'http://127.0.0.1:8080', credentials, nonces: 'memory' });

export async function readAll(market: string, signal: AbortSignal): Promise<string[]> {
  const { data: markets } = await exchange.markets({ signal });
  const { data: tickers } = await exchange.tickers();
  const { data: { bids: [best] } } = await exchange.depth({ market, limit: 1 });
  const { data: trades, rejected } = await exchange.history({ market, lastId: 0, limit: 1000 });
  const { data: { kline } } = await exchange.kline({ market, start: 0, end: 60, interval: 60 });
  const { data: [result] } = await exchange.historyResult({ market, since: 0 });
  const { data: { orders } } = await exchange.book({ market, side: 'buy' }, { form: 'post' });
  const held: string | undefined = (await exchange.balances()).data['BTC']?.available;
  const price: string | undefined = best?.[0];
  const total: number = rejected.length + (result?.tid ?? 0) + (kline[0]?.time ?? 0);
  const left = orders.map((order) => order.left);
  return [markets[0]?.minAmount, tickers[market]?.ticker.last, trades[0]?.price, price, held, ...left]
    .filter((text) => text !== undefined).concat(String(total), String(exchange.time.nowMs()));
}

export async function place(order: OrderRequest): Promise<Reply<CreatedOrder> | 'look'> {
  try {
    return await inMemory.placeOrder(order);
  } catch (error) {
    if (error instanceof UnknownOutcomeError) {
      const asked: string = error.order.market;
      await inMemory.activeOrders({ market: asked });
      return 'look';
    }
    if (error instanceof RateLimitedError) return place(order);
    if (error instanceof NonceFileError || error instanceof BudgetOverrunError) throw error;
    if (error instanceof ExchangeError && error.status === 400) throw error;
    if (isAborted(error) || error instanceof AbortedError) throw error;
    if (error instanceof TapekeepError && error.action === 'fatal') throw error;
    throw error;
  }
}

export async function* follow(market: string, telemetry?: ClientEvents): AsyncGenerator<StateEvent> {
  void telemetry;
  yield* exchange.watch(market, 60);
  await exchange.close();
}

// @ts-expect-error prices are text
void exchange.placeOrder({ market: 'A_B', side: 'buy', price: 1, amount: '1' });
// @ts-expect-error a side is one of two
void exchange.book({ market: 'A_B', side: 'both' });
`;

const OPTIONS: ts.CompilerOptions = {
  strict: true,
  noEmit: true,
  target: ts.ScriptTarget.ES2023,
  module: ts.ModuleKind.NodeNext,
  moduleResolution: ts.ModuleResolutionKind.NodeNext,
  exactOptionalPropertyTypes: true,
  noUncheckedIndexedAccess: true,
  types: [],
};

/**
 * Compiles a file that lies nowhere, as if it stood in the package's own folder.
 *
 * @param skipLibCheck false: the declarations of the package and of all that it uses must hold as well
 */
function compile(text: string, skipLibCheck = true) {
  const options = { ...OPTIONS, skipLibCheck };
  const path = join(repositoryPath, 'user-of-the-package.ts');
  const host = ts.createCompilerHost(options);
  const { fileExists, readFile } = host;
  host.fileExists = (name) => name === path || fileExists(name);
  host.readFile = (name) => (name === path ? text : readFile(name));
  const program = ts.createProgram([path], options, host);
  const faults = ts
    .getPreEmitDiagnostics(program)
    .map(({ messageText }) => ts.flattenDiagnosticMessageText(messageText, '\n'));
  return { program, faults };
}

test('a program of a user compiles against the package, strictly', () => {
  assert.deepEqual(compile(USER, false).faults, []);
  const { faults } = compile(`import { NoSuchThing } from 'tapekeep'; void NoSuchThing;`);
  assert.equal(faults.length, 1, 'a name that is not exported is a fault');
});

test('what resolves without exports finds the same declarations', () => {
  const { exports, typesVersions } = JSON.parse(
    readFileSync(join(repositoryPath, 'package.json'), 'utf8'),
  ) as {
    readonly exports: Readonly<Record<string, string | { readonly types: string }>>;
    readonly typesVersions: { readonly '*': Readonly<Record<string, readonly string[]>> };
  };
  for (const [entry, found] of Object.entries(exports)) {
    if (typeof found === 'string' || entry === '.') continue;
    assert.deepEqual(typesVersions['*'][entry.replace('./', '')], [found.types], entry);
  }
});

/** Types of the package's own that a declaration mentions; `isTypeOnly` when it is exported as a type. */
function mentionedTypes(checker: ts.TypeChecker, declaration: ts.Declaration, isTypeOnly: boolean) {
  const found: ts.Symbol[] = [];
  const visit = (node: ts.Node): void => {
    // What is private to a class is not spoken of, nor how to make one that is exported as a type.
    const isPrivate = ts.isPropertyDeclaration(node) && ts.isPrivateIdentifier(node.name);
    if (isPrivate || (isTypeOnly && ts.isConstructorDeclaration(node))) return;
    if (ts.isTypeReferenceNode(node)) {
      const symbol = checker.getSymbolAtLocation(node.typeName);
      if (symbol !== undefined) found.push(symbol);
    }
    ts.forEachChild(node, visit);
  };
  visit(declaration);
  return found;
}

/** The package's own declarations, by its names. */
function readPackage() {
  const { program } = compile(`export * from 'tapekeep';`);
  const checker = program.getTypeChecker();
  const index = program.getSourceFile(join(repositoryPath, 'dist/index.d.ts'));
  assert.ok(index, 'the package is built');
  const resolve = (symbol: ts.Symbol) =>
    symbol.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(symbol) : symbol;
  const module = checker.getSymbolAtLocation(index);
  assert.ok(module);
  const exports = checker.getExportsOfModule(module);
  assert.ok(exports.length > 50);
  return { checker, resolve, exports };
}

const isOurs = (declaration: ts.Declaration | undefined) =>
  declaration?.getSourceFile().fileName.startsWith(join(repositoryPath, 'dist')) === true;

test('every type of the client and kernel that a signature mentions is exported by name', () => {
  const { checker, resolve, exports } = readPackage();
  const exported = new Set(exports.map(resolve));
  const typeOnly = new Set(
    exports.filter((name) => name.declarations?.every(ts.isTypeOnlyExportDeclaration)).map(resolve),
  );
  const missing = new Set<string>();
  for (const symbol of exported) {
    for (const declaration of symbol.declarations ?? []) {
      for (const mentioned of mentionedTypes(checker, declaration, typeOnly.has(symbol)).map(
        resolve,
      )) {
        const isParameter = (mentioned.flags & ts.SymbolFlags.TypeParameter) !== 0;
        if (isOurs(mentioned.declarations?.[0]) && !isParameter && !exported.has(mentioned)) {
          missing.add(mentioned.name);
        }
      }
    }
  }
  assert.deepEqual([...missing].sort(), []);
});

const docOf = (checker: ts.TypeChecker, symbol: ts.Symbol) =>
  ts.displayPartsToString(symbol.getDocumentationComment(checker));

/** Members that people of the package may use, of types that are written out member by member. */
function membersOf(checker: ts.TypeChecker, symbol: ts.Symbol): ts.Symbol[] {
  const [declaration] = symbol.declarations ?? [];
  if (declaration === undefined) return [];
  const isAlias = ts.isTypeAliasDeclaration(declaration);
  if (isAlias && ts.isTypeQueryNode(declaration.type)) return [];
  const isType = isAlias || ts.isInterfaceDeclaration(declaration);
  if (!isType && !ts.isClassDeclaration(declaration)) return [];
  const type = checker.getDeclaredTypeOfSymbol(symbol);
  // What depends on a parameter is not there yet; of a union each part has its own.
  if (type.isUnion() || (isAlias && declaration.typeParameters !== undefined)) return [];
  return type.getProperties().filter((member) => {
    const [home] = member.declarations ?? [];
    if (home === undefined || !isOurs(home)) return false;
    const name = ts.getNameOfDeclaration(home);
    const isHidden = ts.getCombinedModifierFlags(home) & ts.ModifierFlags.Private;
    if (isHidden || name === undefined || !ts.isIdentifier(name)) return false;
    // A single word that tells one kind from another says itself what it is.
    return !checker.getTypeOfSymbol(member).isLiteral();
  });
}

test('every name of the package is described where an editor shows it, and so are its members', () => {
  const { checker, resolve, exports } = readPackage();
  const silent: string[] = [];
  let members = 0;
  for (const name of exports) {
    const symbol = resolve(name);
    if (docOf(checker, symbol) === '') silent.push(name.name);
    for (const member of membersOf(checker, symbol)) {
      members += 1;
      if (docOf(checker, member) === '') silent.push(`${name.name}.${member.name}`);
    }
  }
  assert.ok(members > 300, `${members} members`);
  assert.deepEqual(silent, []);
});

test('what a call answers with is described, field by field', () => {
  const calls = [
    `(await exchange.history({ market: 'A_B' })).data[0]?.price`,
    `(await exchange.kline({ market: 'A_B', start: 0, end: 60 })).data.kline[0]?.amount`,
    `(await exchange.tickers()).data['A_B']?.ticker.vol`,
    `(await exchange.activeOrders({ market: 'A_B' })).data.result[0]?.left`,
  ];
  const { program, faults } = compile(
    `import type { ExchangeClient } from 'tapekeep'; declare const exchange: ExchangeClient;
     ${calls.map((call, at) => `export const field${at} = ${call};`).join('\n')}`,
  );
  assert.deepEqual(faults, []);
  const checker = program.getTypeChecker();
  const file = program.getSourceFile(join(repositoryPath, 'user-of-the-package.ts'));
  const described: boolean[] = [];
  const visit = (node: ts.Node): void => {
    const made = ts.isVariableDeclaration(node) ? node.initializer : undefined;
    if (made !== undefined && ts.isPropertyAccessExpression(made)) {
      const symbol = checker.getSymbolAtLocation(made.name);
      described.push(symbol !== undefined && docOf(checker, symbol) !== '');
    }
    ts.forEachChild(node, visit);
  };
  if (file !== undefined) ts.forEachChild(file, visit);
  assert.deepEqual(
    described,
    calls.map(() => true),
  );
});

test('tapekeep/client loads what the client needs, and nothing of the archive', () => {
  assert.deepEqual(compile(USER.replaceAll("'tapekeep'", "'tapekeep/client'"), false).faults, []);
  const packages = new Set<string>();
  const files = new Set([join(repositoryPath, 'dist/client.js')]);
  for (const path of files) {
    for (const { fileName } of ts.preProcessFile(readFileSync(path, 'utf8')).importedFiles) {
      if (fileName.startsWith('.')) files.add(join(dirname(path), fileName));
      else if (!fileName.startsWith('node:')) packages.add(fileName);
    }
  }
  assert.ok(files.size > 20);
  assert.deepEqual([...packages].sort(), ['big.js', 'undici', 'ws', 'zod']);
});
