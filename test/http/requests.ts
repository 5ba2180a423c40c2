export const url = "http://shop.test/orders";

export type Init = {
  readonly key?: string;
  readonly body?: string;
  readonly method?: string;
  readonly url?: string;
  readonly headers?: Record<string, string>;
};

export function asked({ key, body = '{"amount":1}', method = "POST", url: at = url, headers }: Init = {}): Request {
  const all = new Headers(headers);
  if (key !== undefined) all.set("idempotency-key", key);
  return new Request(at, { method, headers: all, ...(method === "GET" || method === "HEAD" ? {} : { body }) });
}

export const problemIn = async (response: Response) => ((await response.json()) as { type: string }).type.replace("urn:onceflow:http:", "");
