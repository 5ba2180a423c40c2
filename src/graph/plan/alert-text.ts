import type { Findings } from "../findings/finding.js";
import type { Written } from "../normalise/model.js";

/** The values that an alert's message can use. */
export interface AlertSubject {
  /** The packet, `{{packet.orderId}}`; `{{payload.orderId}}` is the same. */
  readonly packet?: unknown;
  readonly flowId?: string;
  readonly nodeId?: string;
  readonly edge?: string;
  readonly executionId?: string | null;
  readonly deadLetter?: string;
  readonly attempts?: number;
  /** Known only when the alert is sent. */
  readonly error?: { readonly code: string; readonly message: string };
}

const placeholder = /\{\{\s*([\w$-]+(?:\.[\w$-]+)*)\s*\}\}/g;
const roots = ["packet", "payload", "flowId", "nodeId", "edge", "executionId", "deadLetter", "attempts", "error"];
const valueCharsMax = 500;

/** Replaces placeholders by known values. Unknown placeholders stay in the text, so that a reader sees what is missing. */
export function alertText(text: string, { packet, ...subject }: AlertSubject): string {
  const values = { ...subject, ...(packet === undefined ? {} : { packet, payload: packet }) };
  return text.replace(placeholder, (written, path: string) => {
    const value = valueAt(values, path.split("."));
    return value === undefined || value === null ? written : shown(value);
  });
}

function valueAt(from: unknown, path: readonly string[]): unknown {
  let value = from;
  for (const name of path) {
    if (typeof value !== "object" || value === null || !Object.hasOwn(value, name)) return undefined;
    value = (value as Record<string, unknown>)[name];
  }
  return value;
}

function shown(value: unknown): string {
  const text = typeof value === "object" ? JSON.stringify(value) : String(value);
  return text.length <= valueCharsMax ? text : `${text.slice(0, valueCharsMax).toWellFormed()}…`;
}

/** Warns of unknown placeholders. They are not an error: the alert is sent with the placeholder in its text. */
export function reportPlaceholders({ text, spot }: Written, findings: Findings): void {
  for (const [written, path = ""] of text.matchAll(/\{\{\s*([^{}]*?)\s*\}\}/g)) {
    const [root = ""] = path.split(".");
    if (roots.includes(root)) continue;
    findings.add(
      "FLOW_UNDECLARED_FIELD",
      spot,
      `unknown placeholder ${written} in an alert; it is sent unchanged`,
      `use one of ${roots.join(", ")}`,
    );
  }
}
