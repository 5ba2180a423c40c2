import { step } from "onceflow/workflow";
import type { Scene } from "../../kit/scene.js";
import { quick } from "../scene.js";

/** What a step of the cleanup is given, in order. */
export function notes(scene: Scene) {
  const seen: unknown[] = [];
  const note = step(scene.name("note"), async (what: unknown) => void seen.push(what), quick);
  return { seen, note };
}
