import type { Store } from "../core/store/store.js";
import { never } from "./simulator/world.js";

/** A store whose process can die. After `die`, the store starts no operation and answers none, not even those in flight. */
export interface Mortal {
  readonly store: Store;
  die(): void;
}

export function mortal(store: Store): Mortal {
  let dead = false;
  const answered = async (answer: unknown): Promise<unknown> => {
    try {
      const value = await answer;
      return dead ? await never() : value;
    } catch (error) {
      if (dead) return await never();
      throw error;
    }
  };
  const whileAlive = <Of extends object>(of: Of): Of =>
    new Proxy(of, {
      get(target, name) {
        const value: unknown = Reflect.get(target, name, target);
        if (name === "runs" || name === "packets") return whileAlive(value as object);
        // Closing the store must not stop the worker: the worker of a dead process would never answer.
        if (name === "beforeClose") return () => () => {};
        if (typeof value !== "function" || notAsked.has(name)) return value;
        return (...args: unknown[]) => (dead ? never() : answered(value.apply(target, args)));
      },
    });
  return {
    store: whileAlive(store),
    die() {
      dead = true;
    },
  };
}

/** Members that the store answers by itself, without its database. */
const notAsked = new Set<string | symbol>(["onRunChange", "holdRuns", "holdWorker", "watch", "onLost", "release", "changed"]);
