import type { ContractGroup } from "../contract-case.js";
import { actions } from "./actions.js";
import { alertingOfLetters } from "./alerts.js";
import { claimingPackets, settlingPackets } from "./claim.js";
import { executing } from "./executions.js";
import { recording } from "./histories.js";
import { joining } from "./joins.js";
import { keying } from "./keys.js";
import { ordering } from "./lanes.js";
import { lettering } from "./letters.js";
import { racingPackets } from "./races.js";
import { releasing } from "./releases.js";
import { sending } from "./send.js";
import { together } from "./together.js";
import { resting, working } from "./workers.js";

/**
 * The contract of stores with the capability "packets": queues, keys, joins and dead letters of flow graphs. It has the
 * same form as `ledgerContract`.
 *
 * @example
 * for (const { verb, cases } of packetContract)
 *   describe(verb, () => {
 *     for (const one of cases) test(one.name, { skip: one.skip(target) }, () => one.run(target));
 *   });
 */
export const packetContract: readonly ContractGroup[] = [
  sending,
  claimingPackets,
  settlingPackets,
  together,
  keying,
  ordering,
  joining,
  releasing,
  executing,
  recording,
  lettering,
  actions,
  alertingOfLetters,
  working,
  resting,
  racingPackets,
];
