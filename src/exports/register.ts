/** `node --import onceflow/register app.ts`: registers the loader that transforms directives. Exports nothing. */
import "../transform/load/register.js";
