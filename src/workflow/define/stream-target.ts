/** Where chunks go: the attempt of a step, or the code of a workflow. */
export interface StreamTarget {
  write(stream: string, value: unknown): Promise<void>;
  /** No more comes: readers find the end. */
  end(stream: string): Promise<void>;
  /** Readers get this error. */
  abort(stream: string, reason: unknown): Promise<void>;
}
