/** Runtime helpers for legacy decorators and `using`, under the names that code compiled by oxc imports. */
type Decorator = (...args: unknown[]) => unknown;

export function decorate(
  decorators: readonly Decorator[],
  target: object,
  key?: PropertyKey,
  descriptor?: PropertyDescriptor | null,
): unknown {
  const ofClass = key === undefined;
  let made: unknown = ofClass ? target : descriptor === null ? Object.getOwnPropertyDescriptor(target, key) : descriptor;
  for (const each of decorators.toReversed()) made = (ofClass ? each(made) : each(target, key, made)) || made;
  if (!ofClass && made) Object.defineProperty(target, key, made as PropertyDescriptor);
  return made;
}

export function decorateParam(index: number, decorator: Decorator): Decorator {
  return (target, key) => decorator(target, key, index);
}

export function decorateMetadata(key: unknown, value: unknown): Decorator | undefined {
  const { metadata } = Reflect as { metadata?: (key: unknown, value: unknown) => Decorator };
  return metadata?.(key, value);
}

interface Resource {
  readonly dispose: (() => unknown) | undefined;
  readonly isAsync: boolean;
}

const none = Symbol("nothing was thrown");

/**
 * Context of a block with `using` declarations. `u` and `a` register resources, `e` is the error of the block, and `d`
 * disposes of the resources in reverse order; later errors wrap earlier ones as SuppressedError.
 */
export function usingCtx() {
  const resources: Resource[] = [];
  const take = (value: object | null | undefined, isAsync: boolean) => {
    if (value === null || value === undefined) {
      if (isAsync) resources.push({ dispose: undefined, isAsync });
      return value;
    }
    if (Object(value) !== value) throw new TypeError("using declarations can only be used with objects, functions, null, or undefined");
    const methods = value as Record<symbol, unknown>;
    const dispose = (isAsync ? methods[Symbol.asyncDispose] : undefined) ?? methods[Symbol.dispose];
    if (typeof dispose !== "function") throw new TypeError("Property [Symbol.dispose] is not a function");
    resources.push({ dispose: () => dispose.call(value) as unknown, isAsync });
    return value;
  };
  return {
    e: none as unknown,
    u: (value: object | null | undefined) => take(value, false),
    a: (value: object | null | undefined) => take(value, true),
    d(): unknown {
      let thrown = this.e;
      const note = (error: unknown) => {
        thrown = thrown === none ? error : suppressed(error, thrown);
      };
      const next = (): unknown => {
        for (let one = resources.pop(); one !== undefined; one = resources.pop()) {
          try {
            const disposed = one.dispose?.();
            if (one.isAsync) return Promise.resolve(disposed).catch(note).then(next);
          } catch (error) {
            note(error);
          }
        }
        if (thrown !== none) throw thrown;
        return undefined;
      };
      return next();
    },
  };
}

function suppressed(error: unknown, earlier: unknown): Error {
  const made = new Error("An error was suppressed during disposal");
  return Object.defineProperties(Object.assign(made, { error, suppressed: earlier }), { name: { value: "SuppressedError" } });
}
