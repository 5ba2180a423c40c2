/** Keeps this thread as a long computation would, so that its event loop has no turn, and leaves the processor to others. */
export function block(ms: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
}
