import type { Store } from "./store.js";

interface Loan {
  readonly store: Store;
  /** Where it was lent, for messages. */
  readonly where: string;
}

let loan: Loan | undefined;

/**
 * A test lends the process its own store: until it is taken back, front ends that are given no store use this one, and
 * whoever lends it works on it. One at a time: two tests that ran side by side would get each other's runs.
 */
export function lendStore(lent: Loan): { readonly takeBack: () => void } | { readonly lentAt: string } {
  if (loan !== undefined) return { lentAt: loan.where };
  loan = lent;
  const takeBack = () => {
    if (loan === lent) loan = undefined;
  };
  return { takeBack };
}

export function lentStore(): Store | undefined {
  return loan?.store;
}
