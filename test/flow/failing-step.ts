/** The body of a step that fails. */
export const fail = (message: string) => () => {
  throw new Error(message);
};
