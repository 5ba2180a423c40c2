import { perValue } from "./verdict.js";

/**
 * Assigns numbers to values; equal values get the same number. The text of an object contains the numbers of its members, so that
 * each value is read once, however deep it is and however often it is compared. NaN equals no value.
 */
class Identities {
  readonly #byText = new Map<string, number>();
  readonly #byObject = new Map<object, number>();
  #last = 0;

  of(value: unknown): number {
    if (typeof value !== "object" || value === null) return Number.isNaN(value) ? ++this.#last : this.#ofText(scalarText(value));
    const known = this.#byObject.get(value);
    if (known !== undefined) return known;
    const number = this.#ofText(Array.isArray(value) ? this.#listText(value) : this.#objectText(value as Record<string, unknown>));
    this.#byObject.set(value, number);
    return number;
  }

  #listText(list: readonly unknown[]): string {
    return `[${list.map((item) => this.of(item)).join()}]`;
  }

  #objectText(object: Readonly<Record<string, unknown>>): string {
    const members = Object.keys(object).sort();
    return `{${members.map((name) => `${JSON.stringify(name)}:${this.of(object[name])}`).join()}}`;
  }

  #ofText(text: string): number {
    const known = this.#byText.get(text);
    if (known !== undefined) return known;
    this.#last += 1;
    this.#byText.set(text, this.#last);
    return this.#last;
  }
}

function scalarText(value: unknown): string {
  // 0 and -0 are equal.
  return typeof value === "string" ? `"${value}` : `${typeof value} ${String(value)}`;
}

/** Whether two values are equal as JSON. `expected` is part of a schema, which limits the recursion. */
export function areEqual(value: unknown, expected: unknown): boolean {
  if (typeof value !== "object" || typeof expected !== "object" || value === null || expected === null) return value === expected;
  if (Array.isArray(value) !== Array.isArray(expected)) return false;
  // An array may have holes, which are not keys.
  if (Array.isArray(value) && value.length !== (expected as readonly unknown[]).length) return false;
  const names = Object.keys(expected);
  if (Object.keys(value).length !== names.length) return false;
  for (const name of names)
    if (!Object.hasOwn(value, name) || !areEqual((value as Members)[name], (expected as Members)[name])) return false;
  return true;
}

type Members = Readonly<Record<string, unknown>>;

const identities = perValue(() => new Identities());

/** The indexes of the first two equal items. */
export function duplicateIn(list: readonly unknown[]): readonly [number, number] | undefined {
  const seen = new Map<number, number>();
  for (const [i, item] of list.entries()) {
    const identity = identities().of(item);
    const first = seen.get(identity);
    if (first !== undefined) return [first, i];
    seen.set(identity, i);
  }
  return undefined;
}
