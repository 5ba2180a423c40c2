import type { HistoryItem, Runtime } from "../exports/graph.js";
import { facts, table, timeOf } from "./output.js";

/** The whole history of an execution. Values are left out unless `values`. */
export async function historyOf(runtime: Runtime, id: string, values: boolean): Promise<HistoryItem[]> {
  const all: HistoryItem[] = [];
  for (let cursor: string | undefined; ; ) {
    const page = await runtime.history(id, { limit: 1000, ...(cursor === undefined ? {} : { cursor }) });
    all.push(...(values ? page.items : page.items.map((item) => ({ ...item, values: undefined }))));
    cursor = page.next;
    if (cursor === undefined) return all;
  }
}

/** A line for each delivery and event; with their recorded values below, where they have some. */
export function historyTable(items: readonly HistoryItem[]): string {
  const lines = table(
    ["NODE", "ATTEMPT", "TIME", "MS", "VERDICT", "EDGE", "PACKET", "ERROR"],
    items.map((item) => {
      const { node, attempt, startedAt, at, ms, verdict, edge, packetId } = item;
      return [node, attempt, timeOf(startedAt ?? at), ms, verdict, edge, packetId, errorOf(item)];
    }),
  );
  const values = items.filter((item) => item.values !== undefined).map(valuesOf);
  return [lines, ...values].join("\n\n");
}

function errorOf({ code, message, about }: HistoryItem): string | undefined {
  if (code === undefined) return about;
  return message === undefined ? code : `${code}: ${message}`;
}

function valuesOf({ node, attempt, packetId, values }: HistoryItem): string {
  const { input = [], sent = [], outputs = [], more = 0 } = values ?? {};
  const shown = ({ text, cut, bytes }: { readonly text: string; readonly cut: boolean; readonly bytes: number }) =>
    cut ? `${text}… (cut: ${bytes} bytes in all)` : text;
  const rows = [
    ...input.map((value) => [`input ${value.port}`, shown(value)] as const),
    ...sent.map((value) => [`sent ${value.edge}`, shown(value)] as const),
    ...outputs.map((value) => [`output ${value.node}.${value.port}`, shown(value)] as const),
    ...(more > 0 ? [["not recorded", `${more} more values`] as const] : []),
  ];
  return `${packetId} at ${node}, attempt ${attempt}\n${facts(rows)}`;
}
