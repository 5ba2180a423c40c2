/** Number of workers of this process that are starting: their store is being opened. */
let beginning = 0;

export async function whileBeginning(begin: Promise<void>): Promise<void> {
  beginning += 1;
  await begin.finally(() => {
    beginning -= 1;
  });
}

export function isWorkerBeginning(): boolean {
  return beginning > 0;
}
