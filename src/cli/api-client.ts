import { ConfigurationError, OnceflowError, UnreachableError } from "../index.js";
import { tokenOf } from "./token.js";

export interface Answer {
  readonly status: number;
  readonly body: Readonly<Record<string, unknown>>;
}

const answerMsMax = 90_000;

/** Asks a server of ours. What it refuses is thrown, in its own words. */
export function apiClient(url: string, tokenFile: string | undefined): (path: string, init?: RequestInit) => Promise<Answer> {
  if (!/^https?:$/.test(URL.canParse(url) ? new URL(url).protocol : ""))
    throw new ConfigurationError(`[onceflow] --url: "${url}" is no http:// or https:// URL`, { code: "BAD_URL" });
  const token = tokenOf(tokenFile);
  const headers: Record<string, string> = token === undefined ? {} : { authorization: `Bearer ${token}` };
  return async (path, init = {}) => {
    const asked = {
      ...init,
      headers: { ...headers, ...init.headers },
      redirect: "error",
      signal: AbortSignal.timeout(answerMsMax),
    } as const;
    const response = await fetch(`${url.replace(/\/+$/, "")}${path}`, asked).catch((error: unknown) => {
      throw new UnreachableError(`[onceflow] ${url} cannot be reached`, error);
    });
    const body = (await response.json().catch(() => ({}))) as Answer["body"];
    if (response.ok) return { status: response.status, body };
    const { title = "it said no more", detail } = body as { title?: string; detail?: string };
    const message = `[onceflow] ${url} answered ${response.status}: ${title}${detail === undefined ? "" : `; ${detail}`}`;
    if (response.status < 500) throw new ConfigurationError(message, { code: "REFUSED" });
    throw new OnceflowError(message, { code: "REFUSED", retryable: true });
  };
}
