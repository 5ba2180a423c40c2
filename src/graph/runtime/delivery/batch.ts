import type { BaseNode, Handled, NodeInput, NodeOutput } from "../../node/node.js";
import { outputOf } from "../../node/node.js";
import { NodeError } from "../../node/node-error.js";
import { leaseLost } from "./attempt.js";

/** One call of a node for several packets. It is made when each packet has joined, or has left because it failed before. */
export class BatchCall {
  readonly #node: BaseNode;
  readonly #waiting: {
    readonly input: NodeInput;
    readonly isOurs: () => true | Promise<boolean>;
    readonly resolve: (output: NodeOutput) => void;
    readonly reject: (error: unknown) => void;
  }[] = [];
  #expected: number;

  constructor(node: BaseNode, size: number) {
    this.#node = node;
    this.#expected = size;
  }

  /** `isOurs` is asked again before the call: the lease may end while this packet waits for the others. */
  join(input: NodeInput, isOurs: () => true | Promise<boolean>): Promise<NodeOutput> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ input, isOurs, resolve, reject });
      this.#callIfComplete();
    });
  }

  /** One packet of the batch will not join. */
  leave(): void {
    this.#expected -= 1;
    this.#callIfComplete();
  }

  #callIfComplete(): void {
    if (this.#waiting.length === this.#expected && this.#expected > 0) void this.#call();
  }

  async #call(): Promise<void> {
    let members = this.#waiting;
    try {
      while (members.some(({ isOurs }) => isOurs() !== true)) {
        const ours = await Promise.all(members.map(({ isOurs }) => isOurs()));
        for (const [i, { reject }] of members.entries()) if (!ours[i]) reject(leaseLost());
        members = members.filter((_, i) => ours[i]);
      }
      if (members.length === 0) return;
      const answers: readonly (Handled | Error)[] = (await this.#node.handleBatch?.(members.map(({ input }) => input))) ?? [];
      if (!Array.isArray(answers) || answers.length !== members.length)
        throw new NodeError("PERMANENT", `handleBatch must return ${members.length} results, one for each input`);
      for (const [i, { resolve, reject }] of members.entries()) {
        const answer: unknown = answers[i];
        try {
          if (answer instanceof Error) throw answer;
          resolve(outputOf(answer));
        } catch (error) {
          reject(error);
        }
      }
    } catch (error) {
      for (const { reject } of members) reject(error);
    }
  }
}
