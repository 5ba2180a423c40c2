export type Ending = "exit" | "exception";

/** Ends this process as code does that means no harm, or that forgot to catch. */
export async function endProcess(how: string): Promise<never> {
  if (how === "exit") process.exit(1);
  return await new Promise(() => {
    setTimeout(() => {
      throw new Error("thrown outside of every promise");
    });
  });
}
