import type { Store } from "../../../core/store/store.js";
import { InHand } from "../../../core/work/in-hand.js";
import { type Route, waitsForChild } from "../flows/route.js";

/**
 * Whether deliveries may begin. A suspect runs alone: nothing else may begin in this process, on this store, until it has
 * ended (core/work/in-hand.ts). Packets that wait for a child run no user code, so they neither wait nor count.
 */
export class Admission {
  readonly inHand: InHand;
  readonly #resume: () => void;
  #reopening: Promise<void> | undefined;

  /** `resume` is called when a suspect has ended and work was refused meanwhile. */
  constructor(store: Store, resume: () => void) {
    this.inHand = InHand.of(store);
    this.#resume = resume;
  }

  /** No suspect runs alone, or is about to. */
  get isOpen(): boolean {
    return this.inHand.isOpen;
  }

  /** True: nothing may be claimed or begun now; `resume` is called when it may. */
  isBlocked(): boolean {
    if (this.inHand.isOpen) return false;
    this.#reopening ??= this.inHand.untilOpen()?.then(() => {
      this.#reopening = undefined;
      this.#resume();
    });
    return true;
  }

  /** False: a suspect runs alone; try again after `untilOpen`. Each successful call needs one `leave`. */
  enter(route: Route): boolean {
    return waitsForChild(route) || this.inHand.enter();
  }

  untilOpen(): Promise<void> | undefined {
    return this.inHand.untilOpen();
  }

  /** For the suspect itself. */
  enterAlone(route: Route): void {
    if (!waitsForChild(route)) this.inHand.enterAlone();
  }

  leave(route: Route): void {
    if (!waitsForChild(route)) this.inHand.leave();
  }
}
