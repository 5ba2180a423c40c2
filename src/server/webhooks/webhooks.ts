import { ConfigurationError } from "../../core/errors/errors.js";
import type { FlowPlan, Webhook } from "../../exports/graph.js";

/** A webhook entry point of a flow, with its secrets. */
export interface ServedWebhook {
  readonly flow: string;
  readonly node: string;
  readonly webhook: Webhook;
  readonly keys: readonly Buffer[];
}

/** The webhooks of all flows, by path. Throws if a secret is missing, so that a server without it does not start. */
export function webhooksOf(
  plans: readonly FlowPlan[],
  env: Readonly<Record<string, string | undefined>>,
): ReadonlyMap<string, readonly ServedWebhook[]> {
  const byPath = new Map<string, ServedWebhook[]>();
  for (const { id: flow, entries } of plans) {
    for (const { node, webhook } of entries) {
      if (webhook === undefined) continue;
      const { path, method } = webhook;
      const others = byPath.get(path) ?? [];
      const same = others.find((other) => other.webhook.method === method);
      if (same !== undefined)
        throw new ConfigurationError(
          `[onceflow] the flows "${same.flow}" and "${flow}" both have a webhook ${method} ${path}; give each its own path`,
          { code: "WEBHOOK_PATH" },
        );
      const keys = webhook.signature.secrets.map((name) => keyIn(env, name, flow, webhook));
      byPath.set(path, [...others, { flow, node, webhook, keys }]);
    }
  }
  return byPath;
}

/** The message names the variable, never its value. */
function keyIn(env: Readonly<Record<string, string | undefined>>, name: string, flow: string, { path, signature }: Webhook): Buffer {
  const secret = env[name]?.trim() ?? "";
  const about = `[onceflow] the webhook ${path} of flow "${flow}" needs the environment variable ${name}`;
  if (secret === "")
    throw new ConfigurationError(`${about}, which is not set; set it to the signing secret that the sender of the webhook shows`, {
      code: "WEBHOOK_SECRET",
    });
  if (signature.scheme !== "standard-webhooks") return Buffer.from(secret);
  const [, encoded = ""] = /^(?:whsec_)?([A-Za-z0-9+/]+={0,2})$/.exec(secret) ?? [];
  if (encoded !== "") return Buffer.from(encoded, "base64");
  throw new ConfigurationError(`${about} to have the form of the scheme standard-webhooks: whsec_ and the secret in base64`, {
    code: "WEBHOOK_SECRET",
  });
}
