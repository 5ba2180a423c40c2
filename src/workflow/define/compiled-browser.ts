/**
 * The runtime module of transformed code in a browser, where workflows never run: plain functions and globals, without
 * Node APIs. A build for server and browser can so transform each file once.
 */
type Body = (this: unknown, ...args: unknown[]) => unknown;

export const callStep = (_call: unknown, _id: unknown, body: Body, self: unknown, args: unknown[]): unknown => body.apply(self, args);
export const hoistedStep = (): void => {};
export const serdeClass = (): void => {};
export const sharedName = (): void => {};
export const step = (_id: unknown, body: Body): Body => body;
export const stepMethod = (): void => {};
export const workflow = (_id: unknown, _where: string, fn: Body): Body => fn;
export const workflowMethod = (): void => {};

export const newDate = (): Date => new Date();
export const held = (value: unknown): unknown => value;
export const released = (value: unknown): unknown => value;
export const dateNow = (): number => Date.now();
export const dateText = (): string => Date();
export const random = (): number => Math.random();
export const uuid = (): string => globalThis.crypto.randomUUID();

const global =
  (name: string) =>
  (...args: unknown[]) =>
    (globalThis as unknown as Record<string, (...args: unknown[]) => unknown>)[name]?.(...args);
export const fetch = global("fetch");
export const setTimeout = global("setTimeout");
export const setInterval = global("setInterval");
export const setImmediate = global("setImmediate");
