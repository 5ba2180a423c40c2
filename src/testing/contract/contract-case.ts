import { Scene } from "./ledger/scene.js";
import type { ContractTarget } from "./targets/target.js";

/** One promise of the contract. It needs no test runner: it resolves, or rejects with what was found instead. */
export interface ContractCase {
  readonly name: string;
  /** Why this target need not pass it; undefined when it must. */
  skip(target: ContractTarget): string | undefined;
  run(target: ContractTarget): Promise<void>;
}

/** The cases about one verb or noun of the ledger. */
export interface ContractGroup {
  readonly verb: string;
  readonly cases: readonly ContractCase[];
}

export type Skip = ContractCase["skip"];

/** Every case has a ledger of its own, and leaves nothing open or behind, whether it passes or not. */
export function contractCase(name: string, play: (scene: Scene) => Promise<void>, skip: Skip = () => undefined): ContractCase {
  return {
    name,
    skip,
    async run(target) {
      const scene = await Scene.set(target);
      try {
        await play(scene);
      } finally {
        await scene.strike();
      }
    },
  };
}

export const needsTransactions: Skip = ({ name, capabilities }) =>
  capabilities.transactions ? undefined : `${name} has not the capability "transactions"`;

export const needsNoTransactions: Skip = ({ name, capabilities }) =>
  capabilities.transactions ? `${name} has the capability "transactions"` : undefined;

export const needsConnections: Skip = ({ name, severs }) => (severs ? undefined : `${name} has no connections that could be lost`);

export const needsDurability: Skip = ({ name, capabilities }) =>
  capabilities.durable ? undefined : `${name} has not the capability "durable"`;

export const needsVirtualTime: Skip = ({ name, virtualTime }) =>
  virtualTime === true ? undefined : `an hour of ${name} takes an hour; its own tests change the stored times`;
