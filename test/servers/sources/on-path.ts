import { existsSync } from "node:fs";
import { delimiter, join } from "node:path";

/** The path of a program on this machine. Also looks into folders that only root has on its PATH. */
export function programOnPath(name: string): string {
  const folders = ["/usr/bin", "/usr/local/bin", "/usr/sbin", "/usr/local/sbin", ...(process.env.PATH ?? "").split(delimiter)];
  const folder = folders.find((one) => one && existsSync(join(one, name)));
  if (folder === undefined) throw new Error(`no folder of PATH has ${name}`);
  return join(folder, name);
}
