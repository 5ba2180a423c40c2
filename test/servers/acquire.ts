import { type Acquired, acquireFrom } from "./acquire-from.js";
import type { Provider } from "./provider.js";
import { providers } from "./registry.js";

export type ProviderName = keyof typeof providers;

type RunningOf<N extends ProviderName> = Awaited<ReturnType<(typeof providers)[N]["start"]>>;

/** Gets and starts a private server or program from the first source that works. It never throws: the reason lists what was tried. */
export async function acquire<N extends ProviderName>(name: N): Promise<Acquired<RunningOf<N>>> {
  // The providers of the registry have different types. The name selects the type, which the compiler cannot infer here.
  return acquireFrom(providers[name] as unknown as Provider<RunningOf<N>>);
}
