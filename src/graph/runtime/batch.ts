import type { BaseNode, Handled, NodeInput, NodeOutput } from "../node/node.js";
import { outputOf } from "../node/node.js";
import { NodeError } from "../node/node-error.js";

/** One call of a node for several packets: made when every one of them has come to it, or has failed before. */
export class BatchCall {
  readonly #node: BaseNode;
  readonly #waiting: {
    readonly input: NodeInput;
    readonly resolve: (output: NodeOutput) => void;
    readonly reject: (error: unknown) => void;
  }[] = [];
  #expected: number;

  constructor(node: BaseNode, size: number) {
    this.#node = node;
    this.#expected = size;
  }

  join(input: NodeInput): Promise<NodeOutput> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ input, resolve, reject });
      this.#callIfComplete();
    });
  }

  /** One of them does not come. */
  leave(): void {
    this.#expected -= 1;
    this.#callIfComplete();
  }

  #callIfComplete(): void {
    if (this.#waiting.length === this.#expected && this.#expected > 0) void this.#call();
  }

  async #call(): Promise<void> {
    const members = this.#waiting;
    try {
      const answers: readonly (Handled | Error)[] = (await this.#node.handleBatch?.(members.map(({ input }) => input))) ?? [];
      if (!Array.isArray(answers) || answers.length !== members.length)
        throw new NodeError("PERMANENT", `handleBatch must return ${members.length} answers, one for each input`);
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
