/** 0: all is well. 1: there are findings that are errors, or files that would be changed. 2: the command was not understood. */
export const exitFound = 1;
export const exitUsage = 2;
