import type { Carried, Payload } from './tables.js';

/** What looking at a payload brought up, each with its place. */
export interface FormReport {
  /** The contract is broken. */
  readonly faults: string[];
  /** Numbers carried as text, or in exponent form: a known variation. */
  readonly loose: string[];
  /** Fields that the contract does not have. */
  readonly more: string[];
}

const MAX_NAME_LENGTH = 64;
const PLAIN = /^-?\d+(\.\d+)?$/;
const EXPONENT = /^-?\d+(\.\d+)?[eE][+-]?\d+$/;
const MAX_DECIMAL_LENGTH = 80;

/** Carried as NUMERIC, by the tables. */
function isNumeric(carried: Carried): boolean {
  return carried === 'NUMERIC' || carried === 'WHOLE' || carried === 'ID';
}

/** Why a value is not what its table says; undefined when it is. */
function faultOf(carried: Carried, value: unknown): string | undefined {
  if (isNumeric(carried)) {
    const isText = typeof value === 'string' && (PLAIN.test(value) || EXPONENT.test(value));
    const number = isText ? Number(value) : value;
    if (typeof number !== 'number' || !Number.isFinite(number)) return 'is no number';
    if (number < 0) return 'is negative';
    if (carried !== 'NUMERIC' && !Number.isSafeInteger(number)) return 'is not whole';
    return carried === 'ID' && number === 0 ? 'is no id' : undefined;
  }
  if (typeof value !== 'string') return 'is no text';
  if (carried === 'STRING') {
    return value === '' || value.length > MAX_NAME_LENGTH ? 'is no name' : undefined;
  }
  if (carried === 'SIDE') return value === 'buy' || value === 'sell' ? undefined : 'is no side';
  const isDecimal = PLAIN.test(value) || EXPONENT.test(value);
  if (!isDecimal || value.length > MAX_DECIMAL_LENGTH) return 'is no decimal';
  const [digits = ''] = value.split(/[eE]/);
  const isZero = !/[1-9]/.test(digits);
  if (carried === 'POSITIVE' && isZero) return 'is not above zero';
  return carried !== 'SIGNED' && value.startsWith('-') && !isZero ? 'is negative' : undefined;
}

function isLoose(carried: Carried, value: unknown): boolean {
  if (isNumeric(carried)) return typeof value === 'string';
  const isName = carried === 'STRING' || carried === 'SIDE';
  return !isName && typeof value === 'string' && EXPONENT.test(value);
}

const shown = (value: unknown) => (JSON.stringify(value) ?? 'nothing').slice(0, 60);

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function lookAtScalar(carried: Carried, value: unknown, place: string, report: FormReport): void {
  const fault = faultOf(carried, value);
  if (fault !== undefined) report.faults.push(`${place} ${shown(value)} ${fault}`);
  else if (isLoose(carried, value)) report.loose.push(`${place} is carried as ${shown(value)}`);
}

function lookAt(form: Payload | Carried, value: unknown, place: string, report: FormReport): void {
  if (typeof form === 'string') {
    lookAtScalar(form, value, place, report);
    return;
  }
  const wrong = (what: string) => report.faults.push(`${place} ${shown(value)} is no ${what}`);
  switch (form.kind) {
    case 'rows':
      if (!Array.isArray(value)) wrong('array');
      else for (const [at, row] of value.entries()) lookAt(form.of, row, `${place}[${at}]`, report);
      return;
    case 'tuple':
      if (!Array.isArray(value) || value.length !== form.of.length) {
        wrong(`array of ${form.of.length}`);
        return;
      }
      for (const [at, own] of form.of.entries()) lookAt(own, value[at], `${place}[${at}]`, report);
      return;
    case 'byName':
      // Some languages write an empty object as an empty array.
      if (Array.isArray(value) && value.length === 0) report.loose.push(`${place} is an array`);
      else if (!isObject(value)) wrong('object');
      else {
        for (const [name, own] of Object.entries(value)) {
          lookAtScalar('STRING', name, `${place} key`, report);
          lookAt(form.of, own, `${place}.${name}`, report);
        }
      }
      return;
    case 'fields':
      if (!isObject(value)) {
        wrong('object');
        return;
      }
      for (const [name, own] of Object.entries(form.fields)) {
        if (Object.hasOwn(value, name)) lookAt(own, value[name], `${place}.${name}`, report);
        else report.faults.push(`${place} has no ${name}`);
      }
      for (const name of Object.keys(value)) {
        if (!Object.hasOwn(form.fields, name)) report.more.push(name);
      }
  }
}

/** Holds a payload against its table. */
export function lookAtPayload(form: Payload, value: unknown): FormReport {
  const report: FormReport = { faults: [], loose: [], more: [] };
  lookAt(form, value, 'result', report);
  return report;
}

/** A decimal text as digits and exponent, so that only its value counts. */
function decimalValue(text: string): string {
  const [mantissa = '', exponent = '0'] = text.toLowerCase().split('e');
  const [whole = '', fraction = ''] = mantissa.replace('-', '').split('.');
  const digits = `${whole}${fraction}`.replace(/^0+/, '');
  const significant = digits.replace(/0+$/, '');
  if (significant === '') return '0';
  const shift = Number(exponent) - fraction.length + (digits.length - significant.length);
  return `${mantissa.startsWith('-') ? '-' : ''}${significant}e${shift}`;
}

function isSameScalar(carried: Carried, told: unknown, read: unknown): boolean {
  if (isNumeric(carried)) return Number(told) === read;
  if (carried === 'STRING' || carried === 'SIDE') return told === read;
  return typeof read === 'string' && decimalValue(String(told)) === decimalValue(read);
}

/**
 * Where what was read is not what was told: the first such place, or undefined. `told` must be of
 * the form already.
 */
export function firstDifference(
  form: Payload | Carried,
  told: unknown,
  read: unknown,
  place = 'result',
): string | undefined {
  if (typeof form === 'string') {
    if (isSameScalar(form, told, read)) return undefined;
    return `${place} is ${shown(told)}, read as ${shown(read)}`;
  }
  if (form.kind === 'rows' || form.kind === 'tuple') {
    const own = told as readonly unknown[];
    if (!Array.isArray(read) || read.length !== own.length) {
      return `${place} has ${own.length} entries, read were ${shown(read)}`;
    }
    for (const [at, value] of own.entries()) {
      const part = form.kind === 'rows' ? form.of : (form.of[at] ?? 'STRING');
      const difference = firstDifference(part, value, read[at], `${place}[${at}]`);
      if (difference !== undefined) return difference;
    }
    return undefined;
  }
  if (!isObject(read)) return `${place} was read as ${shown(read)}`;
  const names = Object.keys(form.kind === 'fields' ? form.fields : (told as object));
  const extra = Object.keys(read).find((name) => !names.includes(name));
  if (extra !== undefined) return `${place} was read with ${extra}`;
  for (const name of names) {
    const part = form.kind === 'fields' ? (form.fields[name] ?? 'STRING') : form.of;
    const value = (told as Readonly<Record<string, unknown>>)[name];
    const difference = firstDifference(part, value, read[name], `${place}.${name}`);
    if (difference !== undefined) return difference;
  }
  return undefined;
}
