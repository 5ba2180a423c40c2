import { open } from "onceflow";
import { EffectLedger } from "onceflow/testing";

/**
 * What every example of the docs may use without saying where it comes from:
 *
 *   store      an open SQLite store: `sqlite:./onceflow.db` in an empty folder, which is also the working directory
 *   provider   a payment provider that honours idempotency keys; `provider.calls` counts what reached it
 *   mailer     a mail service that does not; `mailer.sent` counts
 *   order      `{ id: "order-1", amount: 4200 }`
 *   delay      waits that many milliseconds
 *
 * An example that declares one of these names itself uses its own.
 */
export async function prelude() {
  const store = await open("sqlite:./onceflow.db");
  const charges = new EffectLedger({ honoursKeys: true });
  const mails = new EffectLedger({ honoursKeys: false });
  return {
    store,
    provider: {
      async charge(what: number | { readonly amount: number }, { idempotencyKey }: { readonly idempotencyKey: string }) {
        const amount = typeof what === "number" ? what : what.amount;
        return charges.call(idempotencyKey, { result: { id: `ch_${charges.keys().length + 1}`, amount } });
      },
      async find(idempotencyKey: string): Promise<{ readonly id: string; readonly amount: number } | undefined> {
        const answer = charges.find(idempotencyKey);
        return answer === "absent" ? undefined : (answer.found as { id: string; amount: number });
      },
      get calls(): number {
        return total(charges);
      },
    },
    mailer: {
      async send(mail: { readonly to: string; readonly text: string }) {
        return mails.call(mail.to, { result: { accepted: mail.to } });
      },
      get sent(): number {
        return total(mails);
      },
    },
    order: { id: "order-1", amount: 4200 },
    delay: (ms: number): Promise<void> => new Promise((resolve) => void setTimeout(resolve, ms)),
  };
}

export type Prelude = Awaited<ReturnType<typeof prelude>>;

function total(effects: EffectLedger): number {
  return effects.keys().reduce((sum, key) => sum + effects.rawCalls(key), 0);
}
