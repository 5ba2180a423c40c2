import { InvalidInputError } from "../../../core/errors/errors.js";
import { knownOptions, type OptionNames } from "../../../core/errors/known-options.js";
import { checkPrivateWebhooks, type PrivateWebhooks } from "../../runtime/alerts/private-address.js";

/** Options of `httpRequest` and `webhookOut`: what a document must not decide by itself. */
export interface HttpNodeOptions {
  /**
   * Whether requests may go to loopback, private and link-local addresses: "refuse" (default), "allow", or a list of allowed hosts,
   * spelled as in the URLs.
   */
  readonly privateAddresses?: PrivateWebhooks;
  /** Values that settings name but do not contain: `{{secrets.apiToken}}`, or `secret: ordersHook` of a webhook. */
  readonly secrets?: Readonly<Record<string, string>>;
}

const optionNames: OptionNames<HttpNodeOptions> = { privateAddresses: true, secrets: true };

export function resolveHttpOptions(where: string, options: HttpNodeOptions): Required<HttpNodeOptions> {
  knownOptions(where, options, optionNames);
  const { privateAddresses = "refuse", secrets = {} } = options;
  for (const [name, value] of Object.entries(secrets))
    if (typeof value !== "string" || value === "")
      throw new InvalidInputError(`${where}: secrets.${name}`, "must be a non-empty string; is its environment variable set?");
  return { privateAddresses: checkPrivateWebhooks(privateAddresses, `${where}: privateAddresses`), secrets };
}
