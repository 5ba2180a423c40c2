import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { type Fence, fencesIn, type Sample, samplesIn } from "./samples.js";

export const root = resolve(import.meta.dirname, "../../..");
export const pages = ["README.md", "ARCHITECTURE.md", ...markdownIn("docs")].filter((page) => existsSync(join(root, page)));

function markdownIn(folder: string): string[] {
  const files = readdirSync(join(root, folder), { recursive: true, encoding: "utf8" });
  return files
    .filter((file) => file.endsWith(".md"))
    .map((file) => `${folder}/${file}`)
    .sort();
}

export function textOf(page: string): string {
  return readFileSync(join(root, page), "utf8");
}

export function fencesOf(page: string): Fence[] {
  return fencesIn(textOf(page));
}

export const samples = pages.flatMap((page) => samplesIn(page, textOf(page)));

export function codeOf({ files }: Sample): string {
  return files.map(({ code }) => code).join("\n");
}
