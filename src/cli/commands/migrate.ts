import type { Command } from "commander";
import { storeOption, withStore } from "../open-store.js";
import { print } from "../output.js";

export function addMigrate(program: Command): void {
  program
    .command("migrate")
    .description("Create or migrate the tables of a store (every process also does this when it opens the store)")
    .addOption(storeOption())
    .action(({ store: url }: { readonly store?: string }) =>
      withStore(url, { create: true }, async ({ name }) => print(`the ${name} store is up to date`)),
    );
}
