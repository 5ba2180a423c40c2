/** The columns of many operations that are passed to one statement as an array for each column. */
export type Columns = readonly (readonly [name: string, type: string])[];

export type Scalar = string | number | boolean | null;

/** SQL for the rows `a` of many operations, with `ord` from 1. `before`: number of preceding parameters. */
export function unnest(columns: Columns, before: number): string {
  const arrays = columns.map(([, type], i) => `$${before + i + 1}::${type}[]`).join(", ");
  return `unnest(${arrays}) WITH ORDINALITY AS a(${columns.map(([name]) => name).join(", ")}, ord)`;
}

/** SQL for the row `a` of one operation, passed as plain values. */
export function onlyRow(columns: Columns, before: number): string {
  const values = columns.map(([name, type], i) => `$${before + i + 1}::${type} AS ${name}`).join(", ");
  return `(SELECT ${values}, 1::bigint AS ord) a`;
}

/** The rows as one array per column, or, if `alone`, as plain values. */
export function columnsOf(rows: readonly (readonly Scalar[])[], alone: boolean): Scalar[] {
  const [first] = rows;
  if (first === undefined) return [];
  return alone ? [...first] : first.map((_, column) => arrayLiteral(rows.map((row) => row[column] ?? null)));
}

/** PostgreSQL's text form of an array. Several times faster than the driver's conversion. */
export function arrayLiteral(values: readonly Scalar[]): string {
  return `{${values.map((value) => (typeof value === "string" ? quote(value) : String(value))).join(",")}}`;
}

function quote(text: string): string {
  return `"${/["\\]/.test(text) ? text.replace(/["\\]/g, "\\$&") : text}"`;
}
