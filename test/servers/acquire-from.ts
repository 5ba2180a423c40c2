import { messageOf } from "./process/command.js";
import type { Provider, Running } from "./provider.js";

/** `promised` tells a failure (the project claims that it can get this server here) from an unsupported platform. */
export type Acquired<R extends Running> =
  | { readonly ok: true; readonly running: R }
  | { readonly ok: false; readonly reason: string; readonly promised: boolean };

/** Gets and starts a server of this provider from the first source that works. It never throws: the reason lists what was tried. */
export async function acquireFrom<R extends Running>(provider: Provider<R>): Promise<Acquired<R>> {
  const given = process.env[provider.env.given];
  if (given) {
    try {
      return { ok: true, running: await provider.given(given) };
    } catch (error) {
      return { ok: false, reason: `${provider.env.given}: ${messageOf(error)}`, promised: true };
    }
  }

  const unsupported = provider.unsupported?.();
  if (unsupported !== undefined) return { ok: false, reason: unsupported, promised: false };

  const only = process.env[provider.env.from];
  const sources = provider.sources.filter((source) => !only || source.name === only);
  if (sources.length === 0) {
    const names = provider.sources.map((source) => source.name).join(", ");
    return { ok: false, reason: `${provider.env.from}=${only} is not one of ${names}`, promised: true };
  }

  // A source that has the program but cannot run it (a wrong libc, for example) must not hide the sources after it.
  const tried: string[] = [];
  for (const source of sources) {
    try {
      return { ok: true, running: await provider.start(await source.seek()) };
    } catch (error) {
      tried.push(`${source.name}: ${messageOf(error)}`);
    }
  }
  return { ok: false, reason: tried.join("; "), promised: true };
}
