import { ConfigurationError, NotKnownError, UnreachableError } from "../../../core/errors/errors.js";
import { type Backoff, backoffMs } from "../../../core/work/backoff.js";
import { sleep, systemClock } from "../../../core/work/clock.js";
import { codeOf, isMisconfigured } from "../errors.js";
import { migrate } from "../migrations/migrate.js";
import type { Flusher } from "./flusher.js";
import { StandbyError } from "./session.js";

const connectBackoff: Backoff = { minMs: 20, maxMs: 500 };

/** Connects and brings the schema up to date. Waits up to `connectMs` for a server that cannot be reached yet. */
export async function opening(flusher: Flusher, schema: string, connectMs: number): Promise<void> {
  const until = performance.now() + connectMs;
  for (let failures = 1; ; failures++) {
    try {
      return await flusher.run("opening the store", (client) => migrate(client, schema));
    } catch (error) {
      const cause = error instanceof Error ? error.cause : undefined;
      const passing = error instanceof NotKnownError || (error instanceof UnreachableError && mayPass(cause));
      const refused = refusal(cause ?? error);
      if (refused !== undefined) {
        await flusher.close();
        throw refused;
      }
      const delayMs = backoffMs(connectBackoff, failures);
      if (!passing || performance.now() + delayMs > until) {
        await flusher.close();
        throw isMisconfigured(cause) ? misconfigured(schema, cause as Error) : error;
      }
      await sleep(systemClock, delayMs);
    }
  }
}

/** The error for a server that can never be used as a store, however long we wait. */
function refusal(cause: unknown): ConfigurationError | undefined {
  if (cause instanceof StandbyError)
    return new ConfigurationError(`[onceflow] [postgres] ${cause.message}`, { code: "POSTGRES_STANDBY", cause });
  if (codeOf(cause) !== "08P01" || !/statement pooling mode/.test(String(cause))) return undefined;
  return new ConfigurationError(
    "[onceflow] [postgres] this pooler is in statement mode, which has no transactions: use transaction or session mode, or connect to the server directly",
    { code: "POSTGRES_POOLER", cause },
  );
}

/** Whether waiting may help. Not if the server answers and rejects the password or the database. */
function mayPass(cause: unknown): boolean {
  const fromServer = cause instanceof Error && "severity" in cause;
  return !fromServer || /^(57P03|53\d\d\d|55P03|40001|40P01)$/.test(codeOf(cause));
}

function misconfigured(schema: string, cause: Error): ConfigurationError {
  return new ConfigurationError(
    `[onceflow] [postgres] schema ${schema} cannot be opened: ${cause.message}. The role needs CREATE on the database to create or update the schema ` +
      "(or run `onceflow migrate` first with a role that has it), and SELECT, INSERT, UPDATE and DELETE on all its tables.",
    { code: "STORE_NOT_USABLE", cause },
  );
}
