import { bodyOf, type Wire, type WireAnswer } from "./wire.js";

const headersOf = (token?: string): Record<string, string> => (token === undefined ? {} : { authorization: `Bearer ${token}` });

/** Sends any text as the body of an invocation. */
export async function post(
  url: string,
  path: string,
  body: string | Uint8Array,
  headers: Record<string, string> = {},
): Promise<WireAnswer> {
  const response = await fetch(`${url}${path}`, {
    method: "POST",
    redirect: "manual",
    headers: { "content-type": "application/json", ...headers },
    body: body as string,
  });
  const { error, ...rest } = (await response.json()) as WireAnswer & { readonly error?: object };
  return { ...rest, ...error, status: response.status, headers: response.headers };
}

export function httpWire(url: string): Wire {
  const pathOf = (operationId: string) => `/v1/nodes/${encodeURIComponent(operationId)}/invoke`;
  return {
    invoke: (operationId, given, token) => post(url, pathOf(operationId), JSON.stringify(bodyOf(given)), headersOf(token)),
    async stream(operationId, given) {
      const response = await fetch(`${url}${pathOf(operationId)}`, {
        method: "POST",
        headers: { "content-type": "application/json", accept: "application/x-ndjson" },
        body: JSON.stringify(bodyOf(given)),
      });
      // A server may answer with plain JSON.
      if (!/x-ndjson/.test(response.headers.get("content-type") ?? "")) {
        const { error, ...rest } = (await response.json()) as WireAnswer & { readonly error?: object };
        return { ...rest, ...error };
      }
      const lines = (await response.text())
        .trimEnd()
        .split("\n")
        .map((line) => JSON.parse(line) as Record<string, unknown>);
      const last = lines.pop() as { readonly error?: object; readonly done?: boolean; readonly replayed?: boolean };
      if (last.error !== undefined) return last.error;
      if (last.done !== true) throw new Error("the last line has neither done nor error");
      return { outputs: lines.map(({ output }) => output) as NonNullable<WireAnswer["outputs"]>, replayed: last.replayed ?? false };
    },
    async health() {
      return (await (await fetch(`${url}/v1/health`)).json()) as Awaited<ReturnType<Wire["health"]>>;
    },
    async manifest(token) {
      const response = await fetch(`${url}/v1/manifest`, { headers: headersOf(token) });
      return response.ok ? ((await response.json()) as NonNullable<Awaited<ReturnType<Wire["manifest"]>>>) : undefined;
    },
    close() {},
  };
}
