import { InvalidInputError } from "../../core/errors/errors.js";

/** Where webhooks are served below the public URL. */
const webhookPath = "/.well-known/onceflow/webhook/";

let configured: string | undefined;

/** Where the outside reaches this app: `configure({ publicUrl })`, else ONCEFLOW_PUBLIC_URL, else a local default. */
export function publicUrl(): string {
  return configured ?? checkedUrl("ONCEFLOW_PUBLIC_URL", process.env["ONCEFLOW_PUBLIC_URL"] || "http://localhost:3000");
}

export function setPublicUrl(url: string): void {
  configured = checkedUrl("publicUrl", url);
}

export function webhookUrlOf(token: string): string {
  return `${publicUrl()}${webhookPath}${encodeURIComponent(token)}`;
}

/** The last part of the path, wherever the handler is mounted. */
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
