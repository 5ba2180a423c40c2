import { expect } from "vitest";

/** The error that a promise rejects with. */
export async function thrownBy(promise: PromiseLike<unknown>): Promise<Error> {
  return await promise.then(
    () => expect.fail("the promise did not reject"),
    (error: unknown) => error as Error,
  );
}
