/** Writes chunks to streams, for an attempt of a step or for workflow code. */
export interface StreamTarget {
  write(stream: string, value: unknown): Promise<void>;
  /** Closes the stream: readers reach its end. */
  end(stream: string): Promise<void>;
  /** Ends the stream with an error, which readers get. */
  abort(stream: string, reason: unknown): Promise<void>;
}
