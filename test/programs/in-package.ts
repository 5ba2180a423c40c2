/** Loads a file that the package does not export, or whose export takes long to load. */
export function inPackage(file: string) {
  return import(new URL(`../${file}`, import.meta.resolve("onceflow")).href);
}
