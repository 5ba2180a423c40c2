/**
 * A copy of `of` whose encrypted texts are decrypted when they are read. A text that cannot be decrypted throws only for code that
 * reads it, not for code that lists, counts or compares.
 */
export function lazily<T extends object>(of: T, opens: { readonly [Name in keyof T]?: (text: string) => string }): T {
  const opened = { ...of };
  for (const name of Object.keys(opens) as (keyof T)[]) {
    const text: unknown = of[name];
    if (typeof text !== "string") continue;
    let known: string | undefined;
    const get = () => {
      known ??= opens[name]?.(text);
      return known;
    };
    Object.defineProperty(opened, name, { get, enumerable: true, configurable: true });
  }
  return opened;
}

/**
 * An object of the members that are not undefined. Optional members must be named too, so that a new one does not compile until it
 * is handled.
 */
export function withMembers<T extends object>(every: { readonly [Name in keyof T]-?: T[Name] | undefined }): T {
  return Object.fromEntries(Object.entries(every).filter(([, member]) => member !== undefined)) as unknown as T;
}
