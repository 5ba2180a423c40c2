/** What the conformance suite sends and receives, the same over HTTP and gRPC. Both clients are written here without the SDK's client. */
export interface InvokeBody {
  readonly flowId?: unknown;
  readonly executionId?: unknown;
  readonly nodeId?: unknown;
  readonly packetId?: unknown;
  readonly idempotencyKey?: unknown;
  readonly attempt?: unknown;
  readonly deadlineMs?: number;
  readonly traceHeaders?: unknown;
  readonly settings?: unknown;
  readonly inputs?: unknown;
}

export interface WireAnswer {
  /** Undefined: the node returned. */
  readonly code?: string;
  readonly message?: string;
  readonly retryAfterMs?: number;
  readonly outputs?: readonly { readonly port: string; readonly data: unknown }[];
  readonly replayed?: boolean;
  /** HTTP status; undefined over gRPC. */
  readonly status?: number;
  readonly headers?: Headers;
}

export interface Wire {
  invoke(operationId: string, body: InvokeBody, token?: string): Promise<WireAnswer>;
  /** With `Accept: application/x-ndjson`, or InvokeStream. */
  stream(operationId: string, body: InvokeBody): Promise<WireAnswer>;
  health(): Promise<{ readonly status: string; readonly inFlight: number; readonly concurrency: number }>;
  /** Undefined: refused. */
  manifest(token?: string): Promise<WireManifest | undefined>;
  close(): void;
}

export interface WireManifest {
  readonly protocol: string;
  readonly sdk: { readonly language: string; readonly version: string };
  readonly nodes: readonly { readonly operationId: string }[];
}

/** A complete body; `given` replaces members. A member that is undefined is left out. */
export function bodyOf(given: InvokeBody): InvokeBody {
  const body = {
    ...{ flowId: "flow", executionId: "x-1", nodeId: "Node", packetId: "p-1", attempt: 1, deadlineMs: 60_000 },
    ...{ traceHeaders: {}, settings: {}, inputs: { in: {} } },
    ...given,
  };
  return Object.fromEntries(Object.entries(body).filter(([, value]) => value !== undefined));
}
