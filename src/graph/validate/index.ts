import type { Findings } from "../findings/finding.js";
import type { Linked } from "../plan/link.js";
import { checkCircles } from "./circles.js";
import { checkDeliveries } from "./deliveries.js";
import { checkIds } from "./ids.js";
import { checkKeys } from "./keys.js";
import { checkKinds } from "./kinds.js";
import { checkPackets } from "./packets.js";
import { checkReach } from "./reach.js";

/** What can only be judged of a whole flow. */
export function validate(flows: readonly Linked[], findings: Findings): void {
  checkIds(flows, findings);
  for (const flow of flows) {
    checkCircles(flow, findings);
    checkReach(flow, findings);
    checkKinds(flow, findings);
    checkDeliveries(flow, findings);
    checkKeys(flow, findings);
    checkPackets(flow, findings);
  }
}
