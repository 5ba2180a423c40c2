/** Blocks this thread like a long computation, so that its event loop gets no turn, but uses no processor time. */
export function block(ms: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
}
