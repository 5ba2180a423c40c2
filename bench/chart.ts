import * as echarts from "echarts";

/** One small panel of horizontal bars with its own scale. Bars that are compared are in one panel. */
interface Panel {
  readonly row: string;
  readonly column: string;
  readonly bars: readonly { readonly series: string; readonly value: number }[];
  /** Replaces the label function of the chart, for a panel with another unit. */
  readonly label?: (value: number) => string;
}

export interface ChartOptions {
  readonly title: string;
  readonly subtitle: string;
  /** Names and colours of the contenders, in the order of the legend. */
  readonly series: Readonly<Record<string, string>>;
  /** Titles of two lines at most; the second line is printed fainter. */
  readonly rows: readonly string[];
  readonly columns: readonly string[];
  readonly panels: readonly Panel[];
  readonly label: (value: number) => string;
}

const width = 1100;
const margin = 28;
const rowTitleWidth = 128;
const headHeight = 146;
const barHeight = 26;
const rowGap = 24;
const gap = 28;
/** Space right of the longest bar, for its figure. */
const labelSpace = 70;
const ink = "#1f2937";
const faint = "#6b7280";
const font = "Inter, 'Segoe UI', 'Helvetica Neue', Arial, 'DejaVu Sans', sans-serif";

/** Renders rows and columns of panels as an SVG on a white card, which is readable on any page. */
export function renderPanels({ title, subtitle, series, rows, columns, panels, label }: ChartOptions): string {
  const barsMax = (row: string) => Math.max(2, ...panels.filter((p) => p.row === row).map((p) => p.bars.length));
  const topOf = (row: string) =>
    rows.slice(0, rows.indexOf(row)).reduce((top, above) => top + barsMax(above) * barHeight + rowGap, headHeight);
  const last = rows.at(-1) ?? "";
  const height = topOf(last) + barsMax(last) * barHeight + margin;
  const columnWidth = (width - margin * 2 - rowTitleWidth - gap * (columns.length - 1)) / columns.length;
  const leftOf = (column: string) => margin + rowTitleWidth + columns.indexOf(column) * (columnWidth + gap);

  const chart = echarts.init(null, null, { renderer: "svg", ssr: true, width, height });
  chart.setOption({
    animation: false,
    textStyle: { fontFamily: font, color: ink },
    graphic: [
      { type: "rect", z: -10, silent: true, shape: { x: 0, y: 0, width, height, r: 14 }, style: { fill: "#ffffff" } },
      text(title, { x: margin, y: 36, font: `bold 20px ${font}`, fill: ink }),
      text(subtitle, { x: margin, y: 64, font: `13px ${font}`, fill: faint }),
      ...legend(series),
      ...columns.map((column) => text(column, { x: leftOf(column), y: headHeight - 16, font: `bold 14px ${font}`, fill: ink })),
      ...rows.flatMap((row) => rowTitle(row, topOf(row))),
      ...rows.slice(1).map((row) => ruler(topOf(row) - rowGap / 2)),
    ],
    grid: panels.map(({ row, column, bars }) => {
      // Panels with fewer bars are lower, so that all bars have the same height.
      return { left: leftOf(column), top: topOf(row), width: columnWidth - labelSpace, height: bars.length * barHeight };
    }),
    xAxis: panels.map(({ bars }, gridIndex) => {
      return { type: "value", gridIndex, show: false, min: 0, max: Math.max(...bars.map((b) => b.value)) };
    }),
    yAxis: panels.map(({ bars }, gridIndex) => {
      return { type: "category", gridIndex, show: false, inverse: true, data: bars.map((b) => b.series) };
    }),
    series: panels.map(({ bars, label: panelLabel = label }, index) => {
      return {
        type: "bar",
        xAxisIndex: index,
        yAxisIndex: index,
        barWidth: barHeight - 6,
        data: bars.map((b) => ({ value: b.value, itemStyle: { color: series[b.series] ?? faint, borderRadius: [0, 4, 4, 0] } })),
        label: {
          show: true,
          position: "right",
          formatter: ({ value }: { value: number }) => panelLabel(value),
          fontSize: 12,
          color: ink,
          fontFamily: font,
        },
      };
    }),
  });
  // Some viewers do not support dominant-baseline; all of them support dy.
  const svg = chart.renderToSVGString().replaceAll('dominant-baseline="central"', 'dy="0.35em"');
  chart.dispose();
  return svg;
}

function text(content: string, { x, y, font, fill }: { x: number; y: number; font: string; fill: string }) {
  return { type: "text", x, y, silent: true, style: { text: content, font, fill, verticalAlign: "middle" } };
}

function rowTitle(row: string, top: number) {
  const [first = "", second = ""] = row.split("\n");
  return [
    text(first, { x: margin, y: top + barHeight / 2, font: `bold 13px ${font}`, fill: ink }),
    text(second, { x: margin, y: top + barHeight / 2 + 18, font: `13px ${font}`, fill: faint }),
  ];
}

function ruler(y: number) {
  return {
    type: "line",
    silent: true,
    shape: { x1: margin, y1: y, x2: width - margin, y2: y },
    style: { stroke: "#e5e7eb", lineWidth: 1 },
  };
}

/** Drawn by hand: the built-in legend belongs to one series, but here a colour stands for the same contender in every panel. */
function legend(series: Readonly<Record<string, string>>) {
  let x = margin;
  return Object.entries(series).flatMap(([name, color]) => {
    const at = x;
    x += 44 + name.length * 7;
    return [
      { type: "rect", silent: true, shape: { x: at, y: 84, width: 14, height: 14, r: 3 }, style: { fill: color } },
      text(name, { x: at + 20, y: 91, font: `13px ${font}`, fill: ink }),
    ];
  });
}
