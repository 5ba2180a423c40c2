/**
 * The same object, with texts that are opened when they are read: one that can't be is an error for whoever wants it,
 * and not for those who only list, count or compare.
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

/** Every member by name, also those that not every backend has: one that is new must be looked at before it compiles. */
export function withMembers<T extends object>(every: { readonly [Name in keyof T]-?: T[Name] | undefined }): T {
  return Object.fromEntries(Object.entries(every).filter(([, member]) => member !== undefined)) as unknown as T;
}
