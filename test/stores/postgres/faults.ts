import pg from "pg";
import { afterAll, beforeAll } from "vitest";

/** Transient error codes: they do not refuse the data. The tests inject each alone and among healthy operations. */
export const passingCodes = [
  "57014",
  "25006",
  "57P05",
  "26000",
  "42P05",
  "57P01",
  "08006",
  "0A000",
  "25P02",
  "40001",
  "53200",
  "55P03",
  "58030",
  "P0001",
  "XX000",
] as const;

const faults = new Map<string, string>();
const real = pg.Client.prototype.query as (...asked: unknown[]) => unknown;
/** How often statements with this mark were answered with an error. */
export const answered = new Map<string, number>();

/** From now on every statement with `mark` in its values is answered with this error code, as the server would do it. */
export function answerWith(mark: string, code: string): void {
  faults.set(mark, code);
}

export function answerAgain(...marks: readonly string[]): void {
  for (const mark of marks) faults.delete(mark);
}

export const isFaulty = (mark: string): boolean => faults.has(mark);

/** Called by a test file: statements with a fault are answered here, all others go to the server. */
export function injectFaults(): void {
  beforeAll(() => {
    pg.Client.prototype.query = query as typeof pg.Client.prototype.query;
  });
  afterAll(() => {
    faults.clear();
    pg.Client.prototype.query = real as typeof pg.Client.prototype.query;
  });
}

function query(this: pg.Client, ...asked: unknown[]): unknown {
  const [config, second] = asked;
  const of = config as { readonly values?: readonly unknown[] } | string;
  const values = (typeof of === "object" ? of.values : undefined) ?? (Array.isArray(second) ? (second as unknown[]) : []);
  const mark = faults.size === 0 ? undefined : [...faults.keys()].find((each) => values.some((value) => carries(value, each)));
  if (mark === undefined) return real.apply(this, asked);
  answered.set(mark, (answered.get(mark) ?? 0) + 1);
  const error = databaseError(faults.get(mark) as string);
  const callback = asked.find((each) => typeof each === "function") as ((error: Error) => void) | undefined;
  if (callback === undefined) return Promise.reject(error);
  process.nextTick(callback, error);
  return undefined;
}

function carries(value: unknown, mark: string): boolean {
  if (typeof value === "string") return value.includes(mark);
  if (Array.isArray(value)) return value.some((each) => carries(each, mark));
  return value instanceof Uint8Array && Buffer.from(value).includes(mark);
}

function databaseError(code: string): Error {
  return Object.assign(new pg.DatabaseError(`injected answer ${code}`, 0, "error"), { code, severity: "ERROR" });
}
