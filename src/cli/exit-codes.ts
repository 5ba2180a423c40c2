/** Exit codes. 0: success. 1: findings, or the operation failed. 2: usage or configuration error; nothing was written. */
export const exitFound = 1;
export const exitUsage = 2;
