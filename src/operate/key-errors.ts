import { OnceflowError, registerErrors } from "../core/errors/errors.js";
import type { RecordId } from "../core/ledger/record.js";

const nameOf = ({ scope, key }: RecordId): string => (scope === "" ? `key "${key}"` : `key "${key}" in scope "${scope}"`);

/** The store has no record of this key: no operation has begun under it, or its record was removed after its retention. */
export class KeyNotFoundError extends OnceflowError {
  static override readonly kind: string = "KeyNotFoundError";
  constructor(id: RecordId) {
    super(`${nameOf(id)} not found in this store: no operation has begun under it, or its record was removed after its retention`, {
      code: "KEY_NOT_FOUND",
      scope: id.scope,
      key: id.key,
    });
  }
}

/**
 * An operator's action on a key was refused, and nothing was changed. `because` says why: "running" (its lease has not expired), "settled" (its outcome is known),
 * "mustResolve" (the effect may have happened), "nothingKept" (there is no outcome to erase), or "changed" (another attempt began, or the key was settled).
 */
export class KeyActionRefusedError extends OnceflowError {
  static override readonly kind: string = "KeyActionRefusedError";
  readonly because: "running" | "settled" | "mustResolve" | "nothingKept" | "changed";
  constructor(id: RecordId & { readonly attempt: number }, because: KeyActionRefusedError["because"], why: string) {
    super(`${nameOf(id)}, attempt ${id.attempt}: the action was refused: ${why}`, {
      code: because === "changed" ? "STALE" : "ACTION_REFUSED",
      ...id,
    });
    this.because = because;
  }
}

registerErrors(KeyNotFoundError, KeyActionRefusedError);
