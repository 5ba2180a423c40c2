/** The journal row of one step in a sequential run, as our library writes it: the result of the last step and the start of the next one. */
export function entryEvents(seq: number): string {
  const at = Date.now();
  return JSON.stringify([
    ["done", `add#${seq - 1}`, at, 1, String(seq)],
    ["step", `add#${seq}`, at, 1, fingerprint],
  ]);
}

/** A fingerprint of arguments: a SHA-256. It differs in every real call, but always has this length. */
const fingerprint = "3d4f2bf07dc1be38b20cd6e46949a1071f9d0e3d0ca39bf9d5d2b1c0a2e9c3f1";
