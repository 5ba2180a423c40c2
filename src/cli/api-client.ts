import { ConfigurationError, OnceflowError, UnreachableError } from "../exports/index.js";

export interface Answer {
  readonly status: number;
  readonly body: Readonly<Record<string, unknown>>;
}

const answerMsMax = 90_000;

/** `notFound`: a 404 is an answer, and not thrown. */
export type ApiCall = (path: string, init?: RequestInit, options?: { readonly notFound?: boolean }) => Promise<Answer>;

/** Returns a function that calls an Onceflow server. An error response is thrown with the server's title and detail, and the code of the error there. */
export function apiClient(address: string, token: string | undefined): ApiCall {
  const url = serverUrl(address);
  const headers: Record<string, string> = token === undefined ? {} : { authorization: `Bearer ${token}` };
  return async (path, init = {}, { notFound = false } = {}) => {
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
    const { title = "no reason given", detail, code, type } = body as { title?: string; detail?: string; code?: string; type?: string };
    // Without a problem document it is another server, or another path, and not an answer about what was looked for.
    if (response.ok || (notFound && response.status === 404 && isNotFound(code ?? type))) return { status: response.status, body };
    const message = `[onceflow] ${url} answered ${response.status}: ${title}${detail === undefined ? "" : `; ${detail}`}`;
    if (code !== undefined && response.status !== 400) throw new OnceflowError(message, { code, retryable: response.status >= 500 });
    if (response.status < 500) throw new ConfigurationError(message, { code: "REFUSED" });
    throw new OnceflowError(message, { code: "REFUSED", retryable: true });
  };
}

/** The thing was not found, in contrast to the route. */
function isNotFound(name: string | undefined): boolean {
  return name !== undefined && !/route[-_](unknown|not[-_]found)/i.test(name);
}

/** `?a=1&b=2` of the members that are defined. */
export function queryText(query: object): string {
  const words = Object.entries(query).flatMap(([name, value]: [string, unknown]): [string, string][] => {
    if (value === undefined) return [];
    if (value instanceof Date) return [[name, value.toISOString()]];
    return [[name, typeof value === "object" ? JSON.stringify(value) : String(value)]];
  });
  return words.length === 0 ? "" : `?${new URLSearchParams(words)}`;
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
