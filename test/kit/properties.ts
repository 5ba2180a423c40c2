import fc from "fast-check";

/**
 * Properties use the same values at every run, so that a failure can be repeated. `ONCEFLOW_SEED=random` tries
 * other values, and a number those of another run.
 */
const asked = process.env["ONCEFLOW_SEED"] ?? "1";
const seed = asked === "random" ? Math.floor(Math.random() * 2 ** 31) : Number(asked);
fc.configureGlobal({ seed });

/** For the parts of one test: each has other values. */
export const seedOf = (part: number): number => seed + part;

export { fc };
