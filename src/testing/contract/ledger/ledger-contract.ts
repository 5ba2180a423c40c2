import type { ContractGroup } from "../contract-case.js";
import { name } from "../name.js";
import { opening } from "../opening.js";
import { attempt } from "./attempt.js";
import { begin } from "./begin.js";
import { effect } from "./effect.js";
import { expiry } from "./expiry.js";
import { groupCommit } from "./group-commit.js";
import { listing } from "./list.js";
import { mismatch } from "./mismatch.js";
import { progress } from "./progress.js";
import { purging } from "./purge.js";
import { race } from "./race.js";
import { reconcile } from "./reconcile.js";
import { renew } from "./renew.js";
import { resend } from "./resend.js";
import { resolving } from "./resolve.js";
import { settling } from "./settle.js";
import { transaction } from "./transaction.js";
import { value } from "./value.js";

/**
 * The contract of every store's ledger, as cases that any test runner can register. Skip a case if `skip` returns a reason.
 *
 * @example
 * for (const { verb, cases } of ledgerContract)
 *   describe(verb, () => {
 *     for (const one of cases) test(one.name, { skip: one.skip(target) }, () => one.run(target));
 *   });
 */
export const ledgerContract: readonly ContractGroup[] = [
  opening,
  begin,
  mismatch,
  settling,
  renew,
  progress,
  attempt,
  expiry,
  name,
  value,
  effect,
  resolving,
  reconcile,
  resend,
  purging,
  listing,
  groupCommit,
  race,
  transaction,
];
