import { SourceMap } from "node:module";
import { parseSync } from "oxc-parser";
import { expect, test } from "vitest";
import { fc } from "../../test/kit/properties.js";
import { transform } from "./transform.js";

/**
 * Functions of every form nested in functions of every other form, over many lines. The transformed code parses, every mark
 * stays on its line, the source map leads from it to its original position, and a second transform changes nothing.
 */
let made = 0;
const fresh = (prefix: string) => `${prefix}${made++}`;
const directive = fc.constantFrom('"use step";', "'use step'", '"use workflow";', '"use step"\n;', "");
const mark = () => `mark(${made++});`;

const forms: readonly ((head: string, inner: string) => string)[] = [
  (head, inner) => `async function ${fresh("f")}<T>(a: T,\n b = 1, ...c: any[]): Promise<void> { ${head}\n${mark()} ${inner} }`,
  (head, inner) => `const ${fresh("a")} = async (a: number) => {${head}\n ${mark()}\n${inner}};`,
  (head, inner) => `const ${fresh("e")} = (async function inner() {\n${head}\n${mark()} ${inner}} as any);`,
  (head, inner) =>
    `const ${fresh("o")} = { async m(a: string) { ${head}\n${mark()} ${inner} }, ${fresh("n")}: async () => { ${head}\n ${inner} } };`,
  (head, inner) =>
    `class ${fresh("K")}<T> { static async m<U>(a: T,\n b: U) { ${head}\n${mark()} ${inner} }\n async n() { ${head} ${mark()} } p = async () => { ${head}\n ${mark()} }; }`,
  (_, inner) => `if (x) {\n${mark()} ${inner} Date.now(); }`,
  (_, inner) => `for (const fetch of [1]) {\n ${inner}\n fetch(); ${mark()} } fetch(\n1);`,
  (head) => `async function ${fresh("d")}(this: any, { x = new Date\n() } = {}) { ${head} ${mark()}\n}`,
];

const code: fc.Arbitrary<string> = fc.letrec<{ code: string; statement: string }>((tie) => ({
  code: fc.array(tie("statement"), { minLength: 1, maxLength: 3 }).map((all) => all.join("\n")),
  statement: fc
    .tuple(fc.nat(forms.length - 1), directive, fc.oneof({ maxDepth: 3 }, fc.constant("Math.random();"), tie("code")))
    .map(([form, head, inner]) => (forms[form] as (typeof forms)[number])(head, inner)),
})).code;

test("line numbers stay the same, and source maps lead back to the original", () => {
  fc.assert(
    fc.property(code, (body) => {
      const source = `#!/usr/bin/env node\nimport x from "x";\n${body}\nexport {};\n`;
      const result = transform(source, { file: "/p/a.ts", root: "/p" });
      if (result === undefined) return;
      const from = source.split("\n");
      const to = result.code.split("\n");
      expect(parseSync("a.ts", result.code).errors).toEqual([]);
      expect(to).toHaveLength(from.length);
      const map = new SourceMap(result.map as never);
      for (const [i, line] of from.entries())
        for (const { 0: found, index } of line.matchAll(/mark\(\d+\)/g)) {
          const column = to[i]?.indexOf(found) ?? -1;
          expect(column).toBeGreaterThanOrEqual(0);
          expect(map.findEntry(i, column)).toMatchObject({ originalLine: i, originalColumn: index });
        }
      expect(transform(result.code, { file: "/p/a.ts", root: "/p" })).toBeUndefined();
    }),
    { numRuns: 300 },
  );
});
