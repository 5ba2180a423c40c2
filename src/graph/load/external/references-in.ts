import { entriesOf, itemsOf, type Spot, type Tree } from "../tree.js";

export interface Reference {
  readonly ref: string;
  readonly from: Spot;
  /** Whether it refers to a flow: then only its document is loaded, not what that document refers to. */
  readonly toFlow: boolean;
}

/** Fields whose value can be a reference. */
const referring = ["$ref", "packet", "message", "schema", "payload", "workflowRef"];
const documentPrefix = /^(?:asyncapi|openapi)(?::[\w-]+)?#/;

/** All references in a tree. Trees that were seen before are skipped, so shared trees and circular references end. */
export function* referencesBelow(root: Spot, seen: Set<Tree>): Generator<Reference> {
  const pending: Spot[] = [root];
  for (let spot = pending.pop(); spot !== undefined; spot = pending.pop()) {
    if (seen.has(spot.tree)) continue;
    seen.add(spot.tree);
    pending.push(...itemsOf(spot));
    for (const { name, tree, pointer } of entriesOf(spot)) {
      pending.push({ tree, pointer });
      const text = tree.kind === "scalar" && typeof tree.value === "string" ? tree.value : undefined;
      if (text !== undefined && (referring.includes(name) || documentPrefix.test(text)))
        yield { ref: text, from: { tree, pointer }, toFlow: name === "workflowRef" };
    }
  }
}
