import { InvalidInputError } from "../../core/errors/errors.js";

/** Path of webhooks below the public URL. */
const webhookPath = "/.well-known/onceflow/webhook/";

let configured: string | undefined;

/** URL under which clients reach this app: `configure({ publicUrl })`, else ONCEFLOW_PUBLIC_URL, else a local default. */
export function publicUrl(): string {
  return configured ?? checkedUrl("ONCEFLOW_PUBLIC_URL", process.env["ONCEFLOW_PUBLIC_URL"] || "http://localhost:3000");
}

export function setPublicUrl(url: string): void {
  configured = checkedUrl("publicUrl", url);
}

export function webhookUrlOf(token: string): string {
  return `${publicUrl()}${webhookPath}${encodeURIComponent(token)}`;
}

/** The token in the URL of a webhook: the last segment of the path, wherever the handler is mounted. */
export function tokenIn(url: string): string | undefined {
  const last = new URL(url).pathname.split("/").at(-1) ?? "";
  try {
    return decodeURIComponent(last) || undefined;
  } catch {
    return undefined;
  }
}

function checkedUrl(field: string, url: string): string {
  if (!URL.canParse(url) || !/^https?:/.test(url))
    throw new InvalidInputError(field, 'must be an http(s) URL, such as "https://shop.example"');
  return url.replace(/\/+$/, "");
}
