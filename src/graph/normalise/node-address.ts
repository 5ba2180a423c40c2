import type { Findings } from "../findings/finding.js";
import type { Spot } from "../load/tree.js";
import { nodeUrl } from "../remote/protocol/node-url.js";
import type { Fields } from "./fields.js";

/** Documents and registries never have a token themselves: they name the environment variable that has it. */
export function readTokenEnv(fields: Fields, findings: Findings): string | undefined {
  const name = fields.text("tokenEnv");
  if (name === undefined || /^[A-Za-z_][A-Za-z0-9_]*$/.test(name)) return name;
  const spot = fields.at("tokenEnv") ?? fields.spot;
  findings.add("FLOW_BAD_VALUE", spot, "is not the name of an environment variable", "write the name, not the token itself");
  return undefined;
}

/** Reports a URL that no node server can have. The message does not repeat the URL, which may have credentials. */
export function reportUrl(url: string, spot: Spot, findings: Findings, schemes: readonly string[]): boolean {
  try {
    if (schemes.includes(nodeUrl(url).protocol)) return true;
    const allowed = schemes.map((scheme) => `${scheme}//`).join(" or ");
    findings.add("FLOW_BAD_VALUE", spot, `the url must begin with ${allowed}`, "correct it");
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error);
    findings.add("FLOW_BAD_VALUE", spot, message, "correct the address");
  }
  return false;
}
