/** 0: all is well. 1: there are findings, or what was asked for failed. 2: the command was not understood; nothing was written. */
export const exitFound = 1;
export const exitUsage = 2;
