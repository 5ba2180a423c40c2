import type { Draft } from "../../journal/writer/draft.js";
import type { Host } from "../host.js";
import { type ParkedRun, park } from "./park.js";

interface UnreadableRun {
  readonly host: Pick<Host, "rehearsal">;
  readonly writer: { readonly busy: boolean };
  readonly calls: { abort(reason: unknown): void };
  readonly draft: Pick<Draft, "unready">;
  lose(reason: unknown): void;
}

/**
 * The next delivery cannot be decoded in this process. In a live run the delivery is mail that is not consumed yet. Running
 * bodies are aborted; the next owner sees in the journal that they started.
 */
export function parkUnreadable(run: ParkedRun & UnreadableRun, why: string): void {
  const { id, state, writer, calls, draft, host } = run;
  if (writer.busy) return;
  if (host.rehearsal) return host.rehearsal.match();
  if (state === "live") {
    process.emitWarning(`this worker releases run "${id}": ${why}`, { type: "OnceflowWarning", code: "ONCEFLOW_RUN_UNREADABLE" });
    // A value that is still being read cannot be removed from the entry: give up the run, and the next renewal releases it.
    if (draft.unready !== undefined) return run.lose(new Error(why));
    calls.abort(new Error(why));
  }
  park(run, `${why}. The run is set aside (status "diverged") and continues in a process that can read it.`);
}
