import { InvalidInputError } from "../../core/errors/errors.js";
import { attributesMax, attributeText, checkAttribute } from "../../core/values/attributes.js";
import { isPlainObject } from "../../core/values/plain-object.js";
import type { AttributesRequest } from "../journal/event.js";
import { type AttributeTexts, changed, storedOf } from "../journal/history/attributes.js";
import type { Requests } from "../replay/requests.js";

/** The run whose code sets attributes. */
interface LabelledRun {
  readonly requests: Pick<Requests, "ordinal" | "ask">;
  now(): number;
}

/**
 * The attributes of a run, as its code has set them so far. A change is a request: it is journaled, and written to the run in the same commit. At a
 * replay it is found in the journal, and nothing is written again.
 */
export class RunAttributes {
  readonly #run: LabelledRun;
  #texts: AttributeTexts;
  /** The journal has no earlier change. */
  #isFirst = true;

  constructor(run: LabelledRun, initial: AttributeTexts) {
    this.#run = run;
    this.#texts = initial;
  }

  /** The checks depend on earlier changes only, so that a replay throws the same errors. A change that is refused takes no number. */
  set(changes: unknown): void {
    const set = textsIn(changes);
    const count = Object.keys(changed(this.#texts, set)).length;
    if (count > attributesMax)
      throw new InvalidInputError("attributes", `would be ${count}; ${attributesMax} are allowed. Remove some by setting them to null`);
    const { requests } = this.#run;
    const id = requests.ordinal("attributes");
    const was = this.#isFirst ? this.#texts : undefined;
    const asked = requests.ask(id, () => {
      return { type: "attributes", id, at: this.#run.now(), set, was, result: storedOf(changed(this.#texts, set)) };
    });
    if (asked?.event.type !== "attributes") return;
    this.#isFirst = false;
    this.#texts = changed(this.#texts, asked.event.set);
  }
}

function textsIn(changes: unknown): AttributesRequest["set"] {
  if (!isPlainObject(changes))
    throw new InvalidInputError("attributes", 'must be an object such as { stage: "paid" }; null removes an attribute');
  const entries = Object.entries(changes);
  if (entries.length > 2 * attributesMax)
    throw new InvalidInputError("attributes", `has ${entries.length} changes; ${2 * attributesMax} are allowed`);
  const texts = entries.map(([name, value]): [string, string | null] => {
    // The name of one that is removed is checked, too: it may be misspelt.
    checkAttribute("attributes", name, value === null ? "" : value);
    return [name, value === null ? null : attributeText(value as string | number | boolean)];
  });
  return Object.fromEntries(texts);
}
