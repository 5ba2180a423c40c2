export type Ending = "exit" | "exception";

/** Ends this process by a call of exit, or by an uncaught exception. */
export async function endProcess(how: string): Promise<never> {
  if (how === "exit") process.exit(1);
  return await new Promise(() => {
    setTimeout(() => {
      throw new Error("thrown outside of every promise");
    });
  });
}
