import { InvalidInputError } from "../../../core/errors/errors.js";

/** Numbers as people see them: `ex_3f2k`, `pk_3f2l`. */
export function executionId(no: number): string {
  return `ex_${no.toString(36)}`;
}

export function packetId(no: number): string {
  return `pk_${no.toString(36)}`;
}

export function executionNo(id: string): number {
  return numberOf("executionId", "ex_", id);
}

export function packetNo(id: string): number {
  return numberOf("packetId", "pk_", id);
}

function numberOf(field: string, prefix: string, id: unknown): number {
  const digits = typeof id === "string" && id.startsWith(prefix) ? id.slice(prefix.length) : "";
  const no = /^[0-9a-z]{1,11}$/.test(digits) ? Number.parseInt(digits, 36) : Number.NaN;
  if (Number.isSafeInteger(no)) return no;
  throw new InvalidInputError(field, `must be an id like ${prefix}3f2k, not ${JSON.stringify(id)?.slice(0, 60) ?? typeof id}`);
}
