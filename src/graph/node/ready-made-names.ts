/** The operationIds of the ready-made nodes (`onceflow/nodes`). A flow may use each of them for several nodes. */
const readyMadeNames = ["http_request", "webhook_out", "email", "delay", "transform", "filter", "split", "collect"] as const;

export function isReadyMade(operationId: string): boolean {
  return (readyMadeNames as readonly string[]).includes(operationId);
}
