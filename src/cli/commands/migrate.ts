import type { Command } from "commander";
import { storeOption, withStore } from "../open-store.js";
import { print } from "../output.js";

export function addMigrate(program: Command): void {
  program
    .command("migrate")
    .description("create the tables of a store or bring them up to date, as every process does that opens it")
    .addOption(storeOption())
    .action(({ store: url }: { readonly store?: string }) =>
      withStore(url, { create: true }, async ({ name }) => print(`the ${name} store is up to date`)),
    );
}
