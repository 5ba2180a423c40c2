/** Many operations as the parameters of one statement: an array for each column. */
export type Columns = readonly (readonly [name: string, type: string])[];

export type Scalar = string | number | boolean | null;

/** The rows `a` of many operations, `ord` from 1; `before` parameters stand before theirs. */
export function unnest(columns: Columns, before: number): string {
  const arrays = columns.map(([, type], i) => `$${before + i + 1}::${type}[]`).join(", ");
  return `unnest(${arrays}) WITH ORDINALITY AS a(${columns.map(([name]) => name).join(", ")}, ord)`;
}

/** The row `a` of one operation, as plain values. */
export function onlyRow(columns: Columns, before: number): string {
  const values = columns.map(([name, type], i) => `$${before + i + 1}::${type} AS ${name}`).join(", ");
  return `(SELECT ${values}, 1::bigint AS ord) a`;
}

/** Column by column, as arrays; alone, as plain values. */
export function columnsOf(rows: readonly (readonly Scalar[])[], alone: boolean): Scalar[] {
  const [first] = rows;
  if (first === undefined) return [];
  return alone ? [...first] : first.map((_, column) => arrayLiteral(rows.map((row) => row[column] ?? null)));
}

/** PostgreSQL's text form of an array. The driver can make one too, at several times the cost. */
export function arrayLiteral(values: readonly Scalar[]): string {
  return `{${values.map((value) => (typeof value === "string" ? quote(value) : String(value))).join(",")}}`;
}

function quote(text: string): string {
  return `"${/["\\]/.test(text) ? text.replace(/["\\]/g, "\\$&") : text}"`;
}
