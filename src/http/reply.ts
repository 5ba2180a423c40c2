/** A whole response of any framework. A header name may occur more than once (`set-cookie`). */
export interface Reply {
  readonly status: number;
  readonly headers: readonly (readonly [string, string])[];
  readonly body: Uint8Array | null;
  /** The response was thrown as an error (Koa): a replay throws it again. */
  readonly thrown?: Thrown;
}

export interface Thrown {
  readonly name: string;
  readonly message: string;
  readonly properties: Readonly<Record<string, unknown>>;
}

/** The handler's response. Not `whole`: it is too long to store, and the framework still has the rest. */
export interface Captured extends Reply {
  readonly whole: boolean;
}

/** For frameworks that take several values of a header as an array. */
export function headersByName(headers: Reply["headers"]): Map<string, string | string[]> {
  const byName = new Map<string, string | string[]>();
  for (const [name, value] of headers) {
    const before = byName.get(name);
    byName.set(name, before === undefined ? value : [before, value].flat());
  }
  return byName;
}

/** For frameworks that store headers as Node does. */
export function headerList(headers: Readonly<Record<string, unknown>>): [string, string][] {
  return Object.entries(headers).flatMap(([name, value]) =>
    value === undefined ? [] : [value].flat().map((one): [string, string] => [name.toLowerCase(), String(one)]),
  );
}
