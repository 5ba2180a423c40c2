/** `node --import onceflow/register app.ts`: imported for what it does to the process. */
import "../transform/load/register.js";
