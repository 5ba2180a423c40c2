import { register } from "node:module";

/**
 * `node --import onceflow/register app.ts`: directives work and TypeScript runs, without a build. Imported for what it
 * does. The hooks live in a thread of Node's; source maps are applied here, where stacks are made.
 */
register("./transform/loader.js", import.meta.url);
process.setSourceMapsEnabled(true);
