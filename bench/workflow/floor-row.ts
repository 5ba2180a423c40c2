/** The journal row of one step in a sequential run, as ours writes it: the last step's result and the next one's start. */
export function entryEvents(seq: number): string {
  const at = Date.now();
  return JSON.stringify([
    ["done", `add#${seq - 1}`, at, 1, String(seq)],
    ["step", `add#${seq}`, at, 1, fingerprint],
  ]);
}

/** Of arguments: a SHA-256, which is never the same twice in a real run, but always as long. */
const fingerprint = "3d4f2bf07dc1be38b20cd6e46949a1071f9d0e3d0ca39bf9d5d2b1c0a2e9c3f1";
