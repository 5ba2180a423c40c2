import { InvalidInputError } from "../../../core/errors/errors.js";
import { NodeError } from "../../node/node-error.js";
import { addressOf } from "../../runtime/alerts/checked-request.js";
import { isRefused, type PrivateWebhooks } from "../../runtime/alerts/private-address.js";
import { type TemplateNames, type TemplateScope, textTemplate } from "../settings/template.js";

/** A URL, and the headers that its user name and password became. */
export type Address = NonNullable<ReturnType<typeof addressOf>>;

/**
 * Compiles the URL of a request. A value from the packet is percent-encoded, so that it stays within its path segment or query
 * parameter; only a placeholder at the very beginning may be a whole URL. A URL without placeholders is checked at once.
 */
export function urlTemplate(text: string, names: TemplateNames, privateAddresses: PrivateWebhooks): (scope: TemplateScope) => Address {
  const fill = textTemplate("settings.url", text, names, (value, index) => (index === 0 ? value : encoded(value)));
  if (!text.includes("{{")) {
    const address = addressOf(text);
    if (address === undefined) throw new InvalidInputError("settings.url", "must be an http or https URL");
    if (isRefused(address.url, privateAddresses))
      throw new InvalidInputError("settings.url", "has a private address; to allow it, add its host to the option privateAddresses");
    return () => address;
  }
  return (scope) => {
    const address = addressOf(fill(scope));
    if (address === undefined) throw new NodeError("VALIDATION", "settings.url: the result is not an http or https URL");
    return address;
  };
}

function encoded(value: string): string {
  // `..` would leave its path segment, and percent-encoding does not change it.
  if (value === "" || value === "." || value === "..")
    throw new NodeError("VALIDATION", `settings.url: a value must not be ${value === "" ? "empty" : `"${value}"`}`);
  return encodeURIComponent(value);
}
