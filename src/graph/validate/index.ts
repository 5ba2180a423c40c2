import type { Findings } from "../findings/finding.js";
import type { Linked } from "../plan/link.js";
import { checkCycles } from "./cycles.js";
import { checkDeliveries } from "./deliveries.js";
import { checkIds } from "./ids.js";
import { checkKeys } from "./keys.js";
import { checkKinds } from "./kinds.js";
import { checkPackets } from "./packets.js";
import { checkReach } from "./reach.js";

/** Checks that require the whole flow. */
export function validate(flows: readonly Linked[], findings: Findings): void {
  checkIds(flows, findings);
  for (const flow of flows) {
    checkCycles(flow, findings);
    checkReach(flow, findings);
    checkKinds(flow, findings);
    checkDeliveries(flow, findings);
    checkKeys(flow, findings);
    checkPackets(flow, findings);
  }
}
