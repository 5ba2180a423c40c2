import { Environment, EvaluationError } from "@marcbachmann/cel-js";
import { LinearPattern } from "../../schema/linear-pattern.js";

/** Functions called on a value (`payload.email.lower()`), with the number of their arguments. */
export const methods: ReadonlyMap<string, number> = new Map([
  ["startsWith", 1],
  ["endsWith", 1],
  ["contains", 1],
  ["matches", 1],
  ["lower", 0],
  ["upper", 0],
  ["toLowerCase", 0],
  ["toUpperCase", 0],
  ["lowerAscii", 0],
  ["upperAscii", 0],
  ["trim", 0],
  ["size", 0],
]);

/** Functions called with one value: `size(payload.items)`. */
export const conversions: readonly string[] = ["size", "string", "int", "double"];

/** Functions that evaluate a condition for the items of a list: `payload.items.exists(x, x.qty > 1)`. */
export const quantifiers: readonly string[] = ["exists", "all"];

/**
 * What one evaluation may read: characters, plus ten for each item of a list. A function in exists() or all() can read a long text
 * once for each item of a long list, which would take time proportional to the product of the two lengths.
 */
const stepsMax = 10_000_000;
const stepsPerItem = 10;

// An evaluation is synchronous, so one counter is enough.
let stepsLeft = stepsMax;
let exhausted: EvaluationError | undefined;

export function resetSteps(): void {
  stepsLeft = stepsMax;
  exhausted = undefined;
}

/**
 * The same error is thrown for the rest of the evaluation: exists() and all() continue with the next item after an error, and a
 * new error with its stack trace for each item would take longer than the work that the limit prevents.
 */
function charge(steps: number): void {
  stepsLeft -= steps;
  if (stepsLeft >= 0) return;
  exhausted ??= failed("step_limit", `the expression reads more than ${stepsMax} characters; decide it in a node`);
  throw exhausted;
}

const failed = (code: string, message: string) => new EvaluationError({ code, message });

/**
 * An environment with the functions and operators of the subset. JSON has one type of number, so every number is a double. Names end
 * in `_`, because the library has functions of the same names that differ: size() counts with another type of number, matches()
 * backtracks, and a division by zero is infinite.
 */
export function environmentWithFunctions(limits: { readonly maxAstNodes: number; readonly maxDepth: number }): Environment {
  const environment = new Environment({ limits, homogeneousAggregateLiterals: false });
  for (const types of ["string + double", "double + string"])
    environment.registerOperator(types, (a: unknown, b: unknown) => String(a) + String(b));
  registerTexts(environment);
  registerLists(environment);
  registerNumbers(environment);
  return environment;
}

const asciiOnly = (change: (text: string) => string) => (text: string) => text.replace(/[A-Za-z]+/g, change);

function registerTexts(environment: Environment): void {
  const lower = (text: string) => text.toLowerCase();
  const upper = (text: string) => text.toUpperCase();
  const changes = { lower, upper, toLowerCase: lower, toUpperCase: upper, lowerAscii: asciiOnly(lower), upperAscii: asciiOnly(upper) };
  for (const [name, change] of Object.entries({ ...changes, trim: (text: string) => text.trim() }))
    environment.registerFunction(`string.${name}_(): string`, (text: string) => {
      charge(text.length);
      return change(text);
    });
  const tests: Readonly<Record<string, (text: string, part: string) => boolean>> = {
    startsWith: (text, part) => text.startsWith(part),
    endsWith: (text, part) => text.endsWith(part),
    contains: (text, part) => text.includes(part),
  };
  for (const [name, test] of Object.entries(tests))
    environment.registerFunction(`string.${name}_(string): bool`, (text: string, part: string) => {
      charge(name === "contains" ? text.length : part.length);
      return test(text, part);
    });
  environment.registerFunction("string.matches_(string): bool", (text: string, written: string) => {
    const pattern = patternOf(written);
    charge(pattern.workFor(text));
    return pattern.test(text);
  });
  // In exists() and all(), texts are joined once for each item.
  environment.registerFunction("joined_(dyn): dyn", (value: unknown) => {
    if (typeof value === "string") charge(value.length);
    return value;
  });
}

const patterns = new Map<string, LinearPattern>();
const patternsMax = 1000;

/** Patterns are literals of documents, checked when the document is loaded. */
function patternOf(text: string): LinearPattern {
  const known = patterns.get(text);
  if (known !== undefined) return known;
  if (patterns.size >= patternsMax) patterns.clear();
  const pattern = new LinearPattern(text);
  patterns.set(text, pattern);
  return pattern;
}

type Items = readonly unknown[];
type Members = Readonly<Record<string, unknown>>;

function registerLists(environment: Environment): void {
  const sizeOfText = (text: string) => {
    charge(text.length);
    return [...text].length;
  };
  const sizeOfList = (items: Items) => items.length;
  const sizeOfMap = (members: Members) => {
    const size = Object.keys(members).length;
    charge(size * stepsPerItem);
    return size;
  };
  environment
    .registerFunction("size_(string): double", sizeOfText)
    .registerFunction("size_(list): double", sizeOfList)
    .registerFunction("size_(map): double", sizeOfMap)
    .registerFunction("string.size_(): double", sizeOfText)
    .registerFunction("list.size_(): double", sizeOfList)
    .registerFunction("map.size_(): double", sizeOfMap)
    .registerFunction("length_(string): double", sizeOfText)
    .registerFunction("length_(list): double", sizeOfList)
    .registerFunction("length_(map): dyn", (members: Members) => {
      if (Object.hasOwn(members, "length")) return members["length"];
      throw failed("no_such_key", "No such key: length");
    })
    .registerFunction("in_(dyn, list): bool", (value: unknown, items: Items) => {
      charge(items.length * stepsPerItem);
      return items.includes(value);
    })
    .registerFunction("in_(string, map): bool", (name: string, members: Members) => Object.hasOwn(members, name))
    .registerFunction("items_(list<T>): list<T>", (items: Items) => {
      charge(items.length * stepsPerItem);
      return items;
    });
}

const decimal = /^[+-]?\d+(?:\.\d+)?(?:e[+-]?\d+)?$/i;
const numberCharsMax = 400;

function registerNumbers(environment: Environment): void {
  const parsed = (text: string) => {
    const number = text.length <= numberCharsMax && decimal.test(text) ? Number(text) : Number.NaN;
    if (Number.isFinite(number)) return number;
    throw failed("not_a_number", "the string is not a number");
  };
  const whole = (number: number) => {
    if (Number.isSafeInteger(Math.trunc(number))) return Math.trunc(number) + 0;
    throw failed("not_an_integer", "the number is too large for an integer");
  };
  const divisible = (divisor: number) => {
    if (divisor === 0) throw failed("division_by_zero", "division by zero");
    return divisor;
  };
  environment
    .registerFunction("div_(double, double): double", (a: number, b: number) => a / divisible(b))
    .registerFunction("mod_(double, double): double", (a: number, b: number) => a % divisible(b))
    .registerFunction("double_(double): double", (number: number) => number)
    .registerFunction("double_(string): double", parsed)
    .registerFunction("int_(double): double", whole)
    .registerFunction("int_(string): double", (text: string) => {
      if (/[.e]/i.test(text)) throw failed("not_an_integer", "the string is not an integer");
      return whole(parsed(text));
    })
    .registerFunction("string_(string): string", (text: string) => text)
    .registerFunction("string_(double): string", String)
    .registerFunction("string_(bool): string", String);
}
