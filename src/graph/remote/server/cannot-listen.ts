import { ConfigurationError } from "../../../core/errors/errors.js";

export function cannotListen(host: string, port: number, code: string, cause: unknown): ConfigurationError {
  const why = code === "EADDRINUSE" ? `port ${port} is in use; choose another (0: any free port)` : code;
  return new ConfigurationError(`[onceflow] the node server cannot listen on ${host}: ${why}`, { code: "CANNOT_LISTEN", cause });
}
