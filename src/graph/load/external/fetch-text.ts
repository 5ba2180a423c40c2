import type { Limits } from "../limits.js";
import { tooLarge, type Unread, unread } from "../read-text.js";

/** Fetches with limits on time and size. Redirects are not followed: only the allowed address is requested. */
export async function fetchText(address: URL, { bytesMax, fetchMsMax }: Limits): Promise<string | Unread> {
  if (!/^https?:$/.test(address.protocol)) return unread("only http and https addresses are supported");
  if (address.username !== "" || address.password !== "") return unread("its address must not contain a user name or password");
  try {
    const response = await fetch(address, { redirect: "manual", signal: AbortSignal.timeout(fetchMsMax) });
    if (!response.ok || response.body === null) {
      await response.body?.cancel();
      const redirected = response.status >= 300 && response.status < 400;
      return unread(`the server responded with ${response.status}${redirected ? "; redirects are not followed" : ""}`);
    }
    const parts: Uint8Array[] = [];
    let bytes = 0;
    for await (const part of response.body) {
      bytes += part.length;
      if (bytes > bytesMax) return tooLarge(`it has more than ${bytesMax} bytes`);
      parts.push(part);
    }
    return new TextDecoder("utf-8", { fatal: true }).decode(Buffer.concat(parts));
  } catch (error) {
    return unread((error as Error).name === "TimeoutError" ? `no response within ${fetchMsMax} ms` : "the request failed");
  }
}
