import { userInfo } from "node:os";

/** The user of this process, for the operator log. A container may run as a user without a name. */
export function actorName(): string {
  try {
    return userInfo().username || `uid ${process.getuid?.() ?? "unknown"}`;
  } catch {
    return `uid ${process.getuid?.() ?? "unknown"}`;
  }
}
