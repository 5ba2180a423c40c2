import { type Acquired, acquireFrom } from "./acquire-from.js";
import type { Provider } from "./provider.js";
import { providers } from "./registry.js";

export type ProviderName = keyof typeof providers;

type RunningOf<N extends ProviderName> = Awaited<ReturnType<(typeof providers)[N]["start"]>>;

/** Gets and starts a private one of these, by the first way that works. It never throws: the reason says what was tried. */
export async function acquire<N extends ProviderName>(name: N): Promise<Acquired<RunningOf<N>>> {
  // The registry's entries differ in what they run; the name picks the type, which the compiler cannot follow through here.
  return acquireFrom(providers[name] as unknown as Provider<RunningOf<N>>);
}
