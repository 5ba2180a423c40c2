import { once } from "node:events";
import { startProcess } from "./lifeline.js";
import type { PaymentBook } from "./payment-provider.js";

interface Provider {
  readonly url: string;
  /** The counts of the payment process. */
  book(): Promise<PaymentBook>;
}

/** Starts the payment provider. The run ends if that process exits, because the shop cannot work without it. */
export async function startProvider(run: AbortController): Promise<Provider> {
  const child = startProcess("payment-provider", [], run.signal);
  child.on("exit", (code, signal) => run.abort(new Error(`the payment process ended by itself (${signal ?? `exit code ${code}`})`)));
  const [{ port }] = (await once(child, "message", { signal: run.signal })) as [{ port: number }];
  const url = `http://127.0.0.1:${port}`;
  return { url, book: async () => (await (await fetch(`${url}/book`, { signal: run.signal })).json()) as PaymentBook };
}
