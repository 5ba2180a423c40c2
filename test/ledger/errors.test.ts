import * as onceflow from "onceflow";
import * as flow from "onceflow/flow";
import * as http from "onceflow/http";
import * as inbox from "onceflow/inbox";
import * as outbox from "onceflow/outbox";
import * as workflow from "onceflow/workflow";
import * as workflowErrors from "onceflow/workflow/errors";
import { expect, test } from "vitest";

type ErrorClass = new (...args: unknown[]) => Error;

const entries: Readonly<Record<string, object>> = { onceflow, flow, http, inbox, outbox, workflow, workflowErrors };

/** Tests and applications construct our errors by hand; a TypeError from the constructor would hide the error they meant. */
const cases = Object.entries(entries).flatMap(([entry, exports]) =>
  Object.entries(exports)
    .filter(([, value]) => typeof value === "function" && value.prototype instanceof Error)
    .map(([name, value]) => [`${entry}: ${name}`, value as ErrorClass] as const),
);

test.each(cases)("%s can be made without options", (_, Class) => {
  for (const error of [new Class(), new Class("text")]) {
    expect(error).toBeInstanceOf(onceflow.OnceflowError);
    expect((error as onceflow.OnceflowError).code).toMatch(/^[A-Z_]+$/);
  }
});

test("the list of classes is not empty", () => {
  expect(cases.length).toBeGreaterThan(30);
});
