import type { ContractGroup } from "../contract-case.js";
import { acting } from "./actions.js";
import { appending } from "./append.js";
import { avoiding } from "./avoid.js";
import { childbearing } from "./children.js";
import { streaming } from "./chunks.js";
import { claiming } from "./claim.js";
import { timing } from "./deadlines.js";
import { fencing } from "./fence.js";
import { hooking } from "./hooks.js";
import { appendingLate } from "./late.js";
import { logging } from "./log.js";
import { mailing } from "./mail.js";
import { sendingOut } from "./outgoing.js";
import { pausing } from "./pause.js";
import { purgingRuns } from "./purge.js";
import { racing } from "./races.js";
import { reading } from "./reading.js";
import { renewing } from "./renew.js";
import { reopeningRuns } from "./reopen.js";
import { searching } from "./search.js";
import { starting } from "./start.js";
import { suspecting } from "./suspects.js";
import { transacting } from "./transactions.js";
import { watching } from "./watch.js";
import { knowingWorkers } from "./workers.js";

/**
 * The contract of stores with the capability "runs": the queue and the journal of workflow runs. It has the same form as
 * `ledgerContract`.
 *
 * @example
 * for (const { verb, cases } of runContract)
 *   describe(verb, () => {
 *     for (const one of cases) test(one.name, { skip: one.skip(target) }, () => one.run(target));
 *   });
 */
export const runContract: readonly ContractGroup[] = [
  starting,
  appending,
  fencing,
  appendingLate,
  hooking,
  mailing,
  sendingOut,
  childbearing,
  claiming,
  suspecting,
  avoiding,
  renewing,
  knowingWorkers,
  reading,
  searching,
  streaming,
  purgingRuns,
  pausing,
  timing,
  acting,
  reopeningRuns,
  logging,
  watching,
  transacting,
  racing,
];
