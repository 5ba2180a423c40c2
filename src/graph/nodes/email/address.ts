import { InvalidInputError } from "../../../core/errors/errors.js";
import { NodeError } from "../../node/node-error.js";
import type { JsonSchema } from "../../schema/compiler.js";
import { type TemplateScope, textTemplate } from "../settings/template.js";

/** An address of a setting: `ada@example.com`, or `{ name, address }`. Both may have placeholders. */
export type WrittenAddress = string | { readonly name?: string; readonly address: string };

export interface MailAddress {
  readonly name: string;
  readonly address: string;
}

const addressSchema: JsonSchema = {
  anyOf: [
    { type: "string", minLength: 1 },
    {
      type: "object",
      required: ["address"],
      properties: { name: { type: "string" }, address: { type: "string", minLength: 1 } },
      additionalProperties: false,
    },
  ],
};

/** One address, or a list. */
export const addressesSchema: JsonSchema = { anyOf: [addressSchema, { type: "array", items: addressSchema, minItems: 1, maxItems: 50 }] };
export { addressSchema };

/**
 * One mailbox. Commas, brackets, quotes and line ends are refused: with them a value from a packet could add recipients or headers.
 */
const mailbox = /^[^\s@,;:<>()[\]"\\\p{Cc}]{1,64}@[^\s@,;:<>()[\]"\\\p{Cc}]{1,255}$/u;

/** Compiles one address or a list of addresses. An address without placeholders is checked at once. */
export function addressTemplates(field: string, written: WrittenAddress | readonly WrittenAddress[]) {
  const list = (Array.isArray(written) ? written : [written]) as readonly WrittenAddress[];
  const templates = list.map((each) => addressTemplate(field, each));
  return (scope: TemplateScope): MailAddress[] => templates.map((fill) => fill(scope));
}

function addressTemplate(field: string, written: WrittenAddress): (scope: TemplateScope) => MailAddress {
  const { name = "", address } = typeof written === "string" ? { address: written } : written;
  if (!address.includes("{{") && !mailbox.test(address))
    throw new InvalidInputError(field, `"${address}" is not an address; write ada@example.com, or { name: Ada, address: ada@example.com }`);
  const [nameOf, addressOf] = [textTemplate(field, name, {}), textTemplate(field, address, {})];
  return (scope) => {
    const filled = { name: nameOf(scope), address: addressOf(scope) };
    if (!mailbox.test(filled.address)) throw new NodeError("VALIDATION", `${field}: the value is not the address of one mailbox`);
    mustBeOneLine(field, filled.name);
    return filled;
  };
}

/** Throws NodeError VALIDATION for a text with a line end: a header could follow. */
export function mustBeOneLine(field: string, text: string): void {
  if (/[\r\n\0]/.test(text)) throw new NodeError("VALIDATION", `${field}: the value has a line end`);
}
