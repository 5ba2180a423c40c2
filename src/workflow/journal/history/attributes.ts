import type { AttributesRequest, Event } from "../event.js";

/** Attributes by name, each with the stored text of its value. */
export type AttributeTexts = Readonly<Record<string, string>>;

function textsOf(stored: string | null): AttributeTexts {
  return stored === null ? {} : (JSON.parse(stored) as AttributeTexts);
}

export function storedOf(texts: AttributeTexts): string | null {
  const names = Object.keys(texts).sort();
  return names.length === 0 ? null : JSON.stringify(Object.fromEntries(names.map((name) => [name, texts[name]])));
}

/** The attributes after a change. */
export function changed(texts: AttributeTexts, set: AttributesRequest["set"]): AttributeTexts {
  const entries = Object.entries({ ...texts, ...set });
  return Object.fromEntries(entries.filter((entry): entry is [string, string] => entry[1] !== null));
}

/** The attributes with which a run was started. Its first change has them; `stored` is what the run has now. */
export function initialAttributes(events: Iterable<Event>, stored: string | null): AttributeTexts {
  for (const event of events) if (event.type === "attributes") return event.was ?? textsOf(stored);
  return textsOf(stored);
}

/**
 * The attributes that a run had after the first events of its journal, for a retry or a fork: what the code has set since does not count. Undefined: the
 * code has never changed them. Retried events are not among `events`, nor among `before`.
 */
export function attributesAfter(
  { events, before }: { readonly events: readonly Event[]; readonly before: readonly Event[] },
  stored: string | null,
): string | null | undefined {
  if (!events.some(({ type }) => type === "attributes")) return undefined;
  let texts = initialAttributes(events, stored);
  for (const event of before) if (event.type === "attributes") texts = changed(texts, event.set);
  return storedOf(texts);
}
