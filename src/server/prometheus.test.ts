import { expect, test } from "vitest";
import { prometheusText } from "./prometheus.js";

test("escapes names that would end their label or line", () => {
  const samples = [{ labels: { flow: 'a"} 1\nevil 2', node: "back\\slash" }, value: 3 }];
  expect(prometheusText([{ name: "x_total", type: "counter", help: "Xs", samples }])).toBe(
    '# HELP x_total Xs\n# TYPE x_total counter\nx_total{flow="a\\"} 1\\nevil 2",node="back\\\\slash"} 3\n',
  );
  expect(prometheusText([{ name: "none", type: "gauge", help: "", samples: [] }])).toBe("");
});
