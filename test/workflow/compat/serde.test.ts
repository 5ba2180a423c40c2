import { serializable } from "onceflow";
import { step, workflow } from "onceflow/workflow";
import { start } from "onceflow/workflow/api";
import { WORKFLOW_DESERIALIZE, WORKFLOW_SERIALIZE } from "onceflow/workflow/serde";
import { expect, test } from "vitest";
import { transform } from "../../../src/transform/transform.js";
import { thrownBy } from "../../kit/thrown-by.js";
import { importTransformed } from "../../transform/transformed.js";
import { memoryOnly } from "./scene.js";

const shapes = `
  import { WORKFLOW_DESERIALIZE, WORKFLOW_SERIALIZE as keep } from "onceflow/workflow/serde";
  const make = Symbol.for("workflow-deserialize");
  export class Point {
    constructor(public x: number, public y: number) {}
    static [keep](point: Point) { return [point.x, point.y]; }
    static [WORKFLOW_DESERIALIZE]([x, y]: [number, number]) { return new Point(x, y); }
    get sum() { return this.x + this.y; }
  }
  export const Line = class {
    constructor(public from: Point, public to: Point) {}
    static [Symbol.for("workflow-serialize")] = (line: any) => ({ from: line.from, to: line.to });
    static [make] = ({ from, to }: any) => new this(from, to);
  };
`;
const code = `
  import { Line, Point } from "./shapes.js";
  export { Line, Point };
  async function flip(point: Point) {
    "use step";
    return new Point(point.y, point.sum);
  }
  export async function draw(point: Point) {
    "use workflow";
    return { line: new Line(point, await flip(point)), isPoint: point instanceof Point };
  }
`;

interface Shapes {
  Point: new (x: number, y: number) => { readonly x: number; readonly y: number; readonly sum: number };
  Line: new (...args: never[]) => { readonly from: unknown; readonly to: unknown };
  draw: (point: unknown) => Promise<{ readonly line: InstanceType<Shapes["Line"]>; readonly isPoint: boolean }>;
}

test("the symbols are those of the Workflow DevKit", () => {
  expect([WORKFLOW_SERIALIZE, WORKFLOW_DESERIALIZE]).toEqual([Symbol.for("workflow-serialize"), Symbol.for("workflow-deserialize")]);
});

test("instances of a class with the two symbols pass through arguments, steps and results with the transform alone", async () => {
  const store = await memoryOnly();
  const { Line, Point, draw } = await importTransformed<Shapes>({ "draw.ts": code, "shapes.ts": shapes });
  const { line, isPoint } = await (await start(draw, [new Point(1, 2)], { store })).returnValue;
  expect([isPoint, line instanceof Line, line.from instanceof Point]).toEqual([true, true, true]);
  expect(line).toEqual({ from: { x: 1, y: 2 }, to: { x: 2, y: 3 } });
});

test("every process that loads the file registers the class, before it has stored an instance", () => {
  const once = transform(shapes, { file: "/app/src/shapes.ts", root: "/app" })?.code ?? "";
  expect(once).toContain('static { __onceflow_serdeClass(this, "class//src/shapes.ts//Point"); }');
  expect(once).toContain('static { __onceflow_serdeClass(this, "class//src/shapes.ts//Line"); }');
  // A second transform changes nothing.
  expect(transform(once, { file: "/app/src/shapes.ts", root: "/app" })).toBeUndefined();
});

test("a class without a name, and two classes of one name, are build errors", () => {
  const member = 'static [Symbol.for("workflow-serialize")]() { return 1; }';
  const failure = (text: string) => {
    try {
      transform(text, { file: "/app/a.ts", root: "/app" });
    } catch (error) {
      return (error as Error).message;
    }
    return "";
  };
  expect(failure(`export default class { ${member} }`)).toMatch(/a\.ts:1:16: .*needs a name/);
  expect(failure(`class A { ${member} }\nexport const f = () => { class A { ${member} } return A; };`)).toMatch(/a\.ts:2:.*named "A"/);
  expect(failure(`class A { ${member} }\nmodule.exports = A;`)).toMatch(/CommonJS/);
});

test("without the transform, serializable(name, Class) registers the class; the error for an unregistered class says so", async () => {
  const store = await memoryOnly();
  class Money {
    readonly cents: number;
    constructor(cents: number) {
      this.cents = cents;
    }
    static [WORKFLOW_SERIALIZE](money: Money) {
      return money.cents;
    }
    static [WORKFLOW_DESERIALIZE](cents: number) {
      return new Money(cents);
    }
  }
  const double = step("compat double", async (money: Money) => new Money(money.cents * 2));
  const pay = workflow("compat pay", async (money: Money) => await double(money));
  const refused = await thrownBy(start(pay, [new Money(1)], { store }));
  expect(refused.message).toMatch(/^args\[0\]: .*WORKFLOW_SERIALIZE.*not registered.*serializable\("Money", Money\)/);
  serializable("compat Money", Money);
  const paid = await (await start(pay, [new Money(21)], { store })).returnValue;
  expect([paid instanceof Money, paid.cents]).toEqual([true, 42]);
  class Half {
    readonly half = true;
    static [WORKFLOW_SERIALIZE]() {
      return 1;
    }
  }
  serializable("compat Half", Half);
  expect((await thrownBy(start(pay, [new Half() as unknown as Money], { store }))).message).toMatch(/no static \[WORKFLOW_DESERIALIZE\]/);
});
