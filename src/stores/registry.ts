import type { StoreModule } from "./open-options.js";

/** Loads the module of a store. Called when a URL of it is first opened; only then is its driver loaded. */
type Load = () => Promise<StoreModule>;

/** Every store: the schemes of its URLs, and its module. To add a store, add its folder beside this file and a line here. */
const stores: readonly (readonly [schemes: string, load: Load])[] = [
  ["memory:", () => import("./memory/index.js")],
  ["sqlite:", () => import("./sqlite/index.js")],
  ["postgres: postgresql:", () => import("./postgres/index.js")],
  ["mongodb: mongodb+srv:", () => import("./mongodb/index.js")],
  ["dynamodb:", () => import("./dynamodb/index.js")],
  ["redis: rediss: redis+cluster: rediss+cluster: redis+sentinel: rediss+sentinel:", () => import("./redis/index.js")],
];

export const storesByScheme: ReadonlyMap<string, Load> = new Map(
  stores.flatMap(([schemes, load]) => schemes.split(" ").map((scheme) => [scheme, load] as const)),
);
