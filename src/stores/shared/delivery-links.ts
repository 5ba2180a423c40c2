import type { DeliveryEntry } from "../../core/packets/delivery-entry.js";

type Links = Pick<DeliveryEntry, "sent" | "joined">;

/** The packets before and after a delivery as one text. Null: there are none. */
export function linksText({ sent, joined }: Links): string | null {
  return sent.length === 0 && joined.length === 0 ? null : JSON.stringify([sent, joined]);
}

export function linksIn(text: string | null): Links {
  if (text === null) return { sent: [], joined: [] };
  const [sent, joined] = JSON.parse(text) as [number[], number[]];
  return { sent, joined };
}
