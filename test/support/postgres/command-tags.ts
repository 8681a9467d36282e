import ts from 'typescript';
import { parse, walk } from '../repository/imports.js';

/** Text of a query that only reads: the count of its answer is right everywhere. */
const ONLY_READS = /^\s*(SELECT|SHOW|VALUES)\b(?!.*\bINTO\b)/i;

/** The `x.query(…)` that an expression waits for, if that is what it is. */
function queryOf(node: ts.Expression | undefined): ts.CallExpression | undefined {
  if (node === undefined) return undefined;
  if (ts.isAwaitExpression(node) || ts.isParenthesizedExpression(node))
    return queryOf(node.expression);
  if (!ts.isCallExpression(node) || !ts.isPropertyAccessExpression(node.expression))
    return undefined;
  return node.expression.name.text === 'query' ? node : undefined;
}

function onlyReads(call: ts.CallExpression): boolean {
  const [text] = call.arguments;
  return text !== undefined && ts.isStringLiteralLike(text) && ONLY_READS.test(text.text);
}

/** Names that are bound to the whole answer of a query, with that query. */
function answersOf(file: ts.SourceFile): Map<string, ts.CallExpression> {
  const answers = new Map<string, ts.CallExpression>();
  walk(file, (node) => {
    if (ts.isVariableDeclaration(node) && ts.isIdentifier(node.name)) {
      const call = queryOf(node.initializer);
      if (call !== undefined) answers.set(node.name.text, call);
    }
    // client.query(…).then((answer) => …)
    if (
      ts.isCallExpression(node) &&
      ts.isPropertyAccessExpression(node.expression) &&
      node.expression.name.text === 'then'
    ) {
      const call = queryOf(node.expression.expression);
      const [then] = node.arguments;
      const name =
        then !== undefined && ts.isArrowFunction(then) ? then.parameters[0]?.name : undefined;
      if (call !== undefined && name !== undefined && ts.isIdentifier(name)) {
        answers.set(name.text, call);
      }
    }
  });
  return answers;
}

/**
 * Places where the source looks at how many rows the answer of the driver claims to be about, other
 * than of a statement that visibly only reads. Returns their text.
 */
export function commandTagsUsed(source: string): string[] {
  const file = parse('source.ts', source);
  const answers = answersOf(file);
  const callBehind = (node: ts.Expression | undefined) =>
    node !== undefined && ts.isIdentifier(node) ? answers.get(node.text) : queryOf(node);
  const found: string[] = [];
  const report = (call: ts.CallExpression | undefined, node: ts.Node) => {
    if (call !== undefined && !onlyReads(call)) found.push(node.getText(file));
  };
  walk(file, (node) => {
    if (ts.isPropertyAccessExpression(node) && node.name.text === 'rowCount') {
      report(callBehind(node.expression), node);
    }
    if (
      ts.isBindingElement(node) &&
      (node.propertyName ?? node.name).getText(file) === 'rowCount'
    ) {
      const declaration = node.parent.parent;
      if (ts.isVariableDeclaration(declaration)) report(callBehind(declaration.initializer), node);
    }
    if (ts.isPropertyAssignment(node) && node.name.getText(file) === 'rowCount') {
      const assignment = node.parent.parent;
      if (ts.isBinaryExpression(assignment)) report(callBehind(assignment.right), node);
    }
  });
  return found;
}
