import fc from "fast-check";

/**
 * Properties are tried on the same values at every run: a run that fails fails again. `ONCEFLOW_SEED=random` looks
 * further, and a number looks at the same as somebody else did.
 */
const asked = process.env["ONCEFLOW_SEED"] ?? "1";
const seed = asked === "random" ? Math.floor(Math.random() * 2 ** 31) : Number(asked);
fc.configureGlobal({ seed });

/** For the parts of one test: each has other values. */
export const seedOf = (part: number): number => seed + part;

export { fc };
