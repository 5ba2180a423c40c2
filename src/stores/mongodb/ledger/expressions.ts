/** A MongoDB aggregation expression. It is evaluated by the server, as part of a write. */
export type Expression = unknown;

/** The server's time: one instant for a whole command, in milliseconds. Doubles, because every driver reads them as numbers. */
export const now: Expression = { $toDouble: "$$NOW" };

/** A literal value. Required for all user data: a key or a result may begin with "$". */
export const literal = (value: string | number | boolean | null | readonly string[]): Expression => ({ $literal: value });

export const and = (...all: readonly Expression[]): Expression => ({ $and: all });
export const or = (...all: readonly Expression[]): Expression => ({ $or: all });
export const not = (one: Expression): Expression => ({ $not: [one] });
export const eq = (a: Expression, b: Expression): Expression => ({ $eq: [a, b] });
export const ne = (a: Expression, b: Expression): Expression => ({ $ne: [a, b] });
export const gte = (a: Expression, b: Expression): Expression => ({ $gte: [a, b] });
export const lt = (a: Expression, b: Expression): Expression => ({ $lt: [a, b] });
export const add = (...all: readonly Expression[]): Expression => ({ $add: all });
export const max = (a: Expression, b: Expression): Expression => ({ $max: [a, b] });
export const choose = (when: Expression, yes: Expression, otherwise: Expression): Expression => ({ $cond: [when, yes, otherwise] });
export const orElse = (value: Expression, otherwise: Expression): Expression => ({ $ifNull: [value, otherwise] });
export const isMissing = (field: string): Expression => eq({ $type: field }, "missing");
/** Removes the field. */
export const absent: Expression = "$$REMOVE";
