import type { StoreModule } from "./open-options.js";

/** Loads a store when its URL is first opened; the store loads its driver then. */
type Load = () => Promise<StoreModule>;

/** Every store: the schemes of its URLs, and its module. A new store is a folder beside these, and a line here. */
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
