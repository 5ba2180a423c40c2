import { readFileSync, writeFileSync } from "node:fs";
import { expect, test } from "vitest";
import type { Field } from "../../../src/server/api/fields.js";
import { problems } from "../../../src/server/api/problems.js";
import type { Route } from "../../../src/server/api/route.js";
import { routes } from "./scene.js";

const page = new URL("../../../docs/reference/api.md", import.meta.url);

/** The tables of the page are made from the definitions: ONCEFLOW_UPDATE_DOCS=1 writes them. */
test("the page has a line for every route and every problem", () => {
  const text = readFileSync(page, "utf8");
  const current = withTables(text);
  if (process.env["ONCEFLOW_UPDATE_DOCS"] === "1") writeFileSync(page, current);
  else expect(text).toBe(current);
});

function withTables(text: string): string {
  const routeLines = routes.map((each) => `| \`${each.method} ${each.path}\` | ${roleOf(each)} | ${inputsOf(each)} | ${each.about} |`);
  const problemLines = Object.entries(problems).map(([code, [status, title]]) => `| \`${code}\` | ${status} | ${title} |`);
  return replaced(
    replaced(text, "| route | role | inputs | |\n|---|---|---|---|", routeLines),
    "| code | status | |\n|---|---|---|",
    problemLines,
  );
}

function replaced(text: string, head: string, lines: readonly string[]): string {
  const [before = "", after = ""] = text.split(`${head}\n`);
  return `${before}${head}\n${lines.join("\n")}\n${after.replace(/^(\|.*\n)*/, "")}`;
}

const roleOf = ({ role, needsValues }: Route): string => (needsValues ? `${role}, values` : role);

const inputsOf = ({ fields }: Route): string =>
  Object.entries(fields)
    .map(([name, { required }]: [string, Field]) => `\`${name}\`${required ? "" : "?"}`)
    .join(", ");
