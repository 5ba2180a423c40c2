import { Scene } from "./ledger/scene.js";
import type { ContractTarget } from "./targets/target.js";

/** One test case of a store contract. It works with every test runner: it resolves, or rejects with an AssertionError. */
export interface ContractCase {
  /** Title of the case: what the store promises. */
  readonly name: string;
  /** Why this target need not pass the case; undefined when it must pass. */
  skip(target: ContractTarget): string | undefined;
  /** Runs the case on a new ledger of the target, and removes the ledger afterwards. */
  run(target: ContractTarget): Promise<void>;
}

/** The cases about one verb or noun of a store. */
export interface ContractGroup {
  /** Title of the group. */
  readonly verb: string;
  readonly cases: readonly ContractCase[];
}

export type Skip = ContractCase["skip"];

/**
 * Makes a case that runs on its own ledger, and closes and removes the ledger whether the case passes or fails. `unopened`: the case
 * needs a ledger whose tables no store has created.
 */
export function contractCase(
  name: string,
  play: (scene: Scene) => Promise<void>,
  skip: Skip = () => undefined,
  { unopened = false }: { readonly unopened?: boolean } = {},
): ContractCase {
  return {
    name,
    skip,
    async run(target) {
      const scene = await Scene.set(target, { unopened });
      try {
        await play(scene);
      } finally {
        await scene.strike();
      }
    },
  };
}

export const needsTransactions: Skip = ({ name, capabilities }) =>
  capabilities.transactions ? undefined : `${name} does not have the capability "transactions"`;

export const needsNoTransactions: Skip = ({ name, capabilities }) =>
  capabilities.transactions ? `${name} has the capability "transactions"` : undefined;

export const needsConnections: Skip = ({ name, severs }) => (severs ? undefined : `${name} has no connections that can be cut`);

export const needsDurability: Skip = ({ name, capabilities }) =>
  capabilities.durable ? undefined : `${name} does not have the capability "durable"`;

export const needsVirtualTime: Skip = ({ name, virtualTime }) =>
  virtualTime === true
    ? undefined
    : `${name} runs in real time, and this case waits for an hour; the store's own tests change the stored times instead`;
