import { open, type Store } from "onceflow";
import { alertOn } from "onceflow/alerts";

/** Sends alerts to a server, and kills itself with SIGKILL at the given point. */
export interface AlertDoom {
  readonly url: string;
  /** The URL of serveEffects, which counts alerts by their id. */
  readonly serverUrl: string;
  readonly dieAt: string;
}

export const alertOptions = { name: "killed", since: new Date(0), pollMs: 20, leaseMs: 400 } as const;

/** Posts an alert to the server that counts them. */
export function senderTo(serverUrl: string) {
  return async ({ id }: { readonly id: string }, { attempt }: { readonly attempt: number }): Promise<void> => {
    const reply = await fetch(serverUrl, { method: "POST", headers: { "idempotency-key": id, "x-attempt": String(attempt) } });
    await reply.arrayBuffer();
  };
}

/** The same store, with a crash point before and after each write of the alerts. */
function mortal(store: Store, at: (point: string) => void): Store {
  const verbs: Readonly<Record<string, string>> = { begin: "begin", renew: "save", sendPackets: "add", settlePacket: "settle" };
  const commit = async (batch: { readonly ledger?: { readonly verb: string }; readonly packet?: { readonly verb: string } }) => {
    const verb = verbs[batch.ledger?.verb ?? batch.packet?.verb ?? ""] ?? "other";
    at(`before ${verb}`);
    const answer = await store.commit(batch as never);
    at(`after ${verb}`);
    return answer;
  };
  return Object.create(store, { commit: { value: commit } }) as Store;
}

async function main({ url, serverUrl, dieAt }: AlertDoom): Promise<void> {
  const at = (point: string) => {
    if (point === dieAt) process.kill(process.pid, "SIGKILL");
  };
  const send = senderTo(serverUrl);
  const store = mortal(await open(url, { stallMsMax: 0 }), at);
  alertOn({
    ...alertOptions,
    store,
    send: async (alert, context) => {
      at("before send");
      await send(alert, context);
      at("after send");
    },
  });
}

if (process.argv[2] !== undefined && import.meta.url === `file://${process.argv[1]}`) await main(JSON.parse(process.argv[2]) as AlertDoom);
