import { key as keyOf, once, type Store } from "onceflow";
import { expect } from "vitest";

/** How often each effect has happened. */
export const effects = new Map<string, number>();

export function effect(name: string): string {
  effects.set(name, (effects.get(name) ?? 0) + 1);
  return `done ${name}`;
}

/** Asserts that the key has the result of its effect, and that the effect happened once. */
export async function expectDoneOnce(store: Store, name: string): Promise<void> {
  const again = await once(store, { key: keyOf.of(name) }, () => "a second time");
  expect(again, name).toMatchObject({ status: "replayed", value: `done ${name}` });
  expect(effects.get(name), name).toBe(1);
}
