/** A file of the package that the package does not export, or that takes long to load with all it is exported with. */
export function inPackage(file: string) {
  return import(new URL(`../${file}`, import.meta.resolve("onceflow")).href);
}
