import { ConfigurationError, OnceflowError, UnreachableError } from "../exports/index.js";

export interface Answer {
  readonly status: number;
  readonly body: Readonly<Record<string, unknown>>;
}

const answerMsMax = 90_000;

/** Returns a function that calls an Onceflow server. An error response is thrown with the server's title and detail. */
export function apiClient(address: string, token: string | undefined): (path: string, init?: RequestInit) => Promise<Answer> {
  const url = serverUrl(address);
  const headers: Record<string, string> = token === undefined ? {} : { authorization: `Bearer ${token}` };
  return async (path, init = {}) => {
    const asked = {
      ...init,
      headers: { ...headers, ...init.headers },
      redirect: "error",
      signal: AbortSignal.timeout(answerMsMax),
    } as const;
    const response = await fetch(`${url}${path}`, asked).catch((error: unknown) => {
      throw new UnreachableError(`[onceflow] ${url} cannot be reached`, error);
    });
    const body = (await response.json().catch(() => ({}))) as Answer["body"];
    if (response.ok) return { status: response.status, body };
    const { title = "no reason given", detail } = body as { title?: string; detail?: string };
    const message = `[onceflow] ${url} answered ${response.status}: ${title}${detail === undefined ? "" : `; ${detail}`}`;
    if (response.status < 500) throw new ConfigurationError(message, { code: "REFUSED" });
    throw new OnceflowError(message, { code: "REFUSED", retryable: true });
  };
}

/** Returns origin and path only. A user name, password or query in the URL would be printed with every error. */
function serverUrl(address: string): string {
  const url = URL.canParse(address) ? new URL(address) : undefined;
  if (url === undefined || !/^https?:$/.test(url.protocol))
    throw new ConfigurationError(`[onceflow] --url: "${address}" is not an http:// or https:// URL`, { code: "BAD_URL" });
  if (url.username !== "" || url.password !== "")
    throw new ConfigurationError("[onceflow] --url must not contain a user name or password; use --token-file or ONCEFLOW_TOKEN", {
      code: "BAD_URL",
    });
  return `${url.origin}${url.pathname.replace(/\/+$/, "")}`;
}
