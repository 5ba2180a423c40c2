import type { Client, ClientOptions, ClientReadableStream, ClientUnaryCall, Metadata, ServiceError } from "@grpc/grpc-js";
import { NodeError } from "../../node/node-error.js";
import { type LoadedGrpc, loadGrpc } from "../grpc/load.js";
import { errorOf, type InvokeResponse, type InvokeStreamResponse, packetOf, requestOf } from "../grpc/messages.js";
import type { SentPacket } from "../protocol/answer.js";
import type { Invocation } from "../protocol/invocation.js";
import type { Manifest } from "../server/manifest.js";
import { readManifest } from "./http-answer.js";
import type { NodeClientPolicy } from "./options.js";
import { abortError, answeredError, type NodeHealth, type Transport } from "./transport.js";

type Callback<Response> = (error: ServiceError | null, response?: Response) => void;

interface NodeService extends Client {
  Invoke(request: object, metadata: Metadata, options: object, answer: Callback<InvokeResponse>): ClientUnaryCall;
  InvokeStream(request: object, metadata: Metadata, options: object): ClientReadableStream<InvokeStreamResponse>;
  Health(
    request: object,
    metadata: Metadata,
    answer: Callback<{ readonly status: string; readonly inFlight: number; readonly concurrency: number }>,
  ): ClientUnaryCall;
  Manifest(
    request: object,
    metadata: Metadata,
    answer: Callback<{
      readonly protocol: string;
      readonly sdkLanguage: string;
      readonly sdkVersion: string;
      readonly nodes: readonly unknown[];
    }>,
  ): ClientUnaryCall;
}

/** Calls a node server over gRPC, on one channel. */
export class GrpcTransport implements Transport {
  readonly #policy: NodeClientPolicy;
  readonly #loaded: LoadedGrpc;
  readonly #client: NodeService;

  constructor(policy: NodeClientPolicy) {
    this.#policy = policy;
    this.#loaded = loadGrpc();
    const { grpc, service } = this.#loaded;
    const { url, tls, answerBytesMax } = policy;
    const options: ClientOptions = {
      "grpc.max_receive_message_length": answerBytesMax,
      "grpc.max_send_message_length": -1,
      // The edge's retry policy decides about repetitions.
      "grpc.enable_retries": 0,
      // A server that is up again is found within a second, not two minutes.
      ...{ "grpc.initial_reconnect_backoff_ms": 100, "grpc.max_reconnect_backoff_ms": 1000 },
      "grpc.enable_http_proxy": 0,
      ...(tls.serverName === undefined
        ? {}
        : { "grpc.ssl_target_name_override": tls.serverName, "grpc.default_authority": tls.serverName }),
    };
    const bytes = (pem: string | Buffer | undefined) => (pem === undefined ? null : Buffer.from(pem));
    const credentials =
      url.protocol === "grpcs:"
        ? grpc.credentials.createSsl(bytes(tls.ca), bytes(tls.key), bytes(tls.cert))
        : grpc.credentials.createInsecure();
    const Service = grpc.makeGenericClientConstructor(service, "NodeService") as unknown as new (
      ...args: ConstructorParameters<typeof Client>
    ) => NodeService;
    this.#client = new Service(url.host, credentials, options);
  }

  async invoke(
    invocation: Invocation,
    { streaming, signal }: { readonly streaming: boolean; readonly signal: AbortSignal },
  ): Promise<readonly SentPacket[]> {
    const what = `node "${invocation.operationId}" at ${this.#policy.label}`;
    const metadata = this.#metadataOf(invocation);
    const options = invocation.deadlineMs === undefined ? {} : { deadline: Date.now() + invocation.deadlineMs };
    const request = requestOf(invocation);
    if (streaming) return await this.#collect(() => this.#client.InvokeStream(request, metadata, options), signal, what);
    const response = await this.#call<InvokeResponse>((answer) => this.#client.Invoke(request, metadata, options, answer), signal, what);
    if (response.error) throw failureOf(response.error, what);
    return response.outputs.map((output) => readPacket(output, what));
  }

  async health(signal: AbortSignal): Promise<NodeHealth> {
    const { label } = this.#policy;
    const { status, inFlight, concurrency } = await this.#call<Parameters<Parameters<NodeService["Health"]>[2]>[1] & object>(
      (answer) => this.#client.Health({}, this.#metadata(), answer),
      signal,
      label,
    );
    return { status: status === "SERVING" ? "serving" : "stopping", inFlight, concurrency };
  }

  async manifest(signal: AbortSignal): Promise<Manifest> {
    const { label } = this.#policy;
    const { protocol, sdkLanguage, sdkVersion, nodes } = await this.#call<Parameters<Parameters<NodeService["Manifest"]>[2]>[1] & object>(
      (answer) => this.#client.Manifest({}, this.#metadata(), answer),
      signal,
      label,
    );
    return readManifest({ protocol, sdk: { language: sdkLanguage, version: sdkVersion }, nodes });
  }

  close(): void {
    this.#client.close();
  }

  #metadata(): Metadata {
    const metadata = new this.#loaded.grpc.Metadata();
    if (this.#policy.token !== undefined) metadata.set("authorization", `Bearer ${this.#policy.token}`);
    return metadata;
  }

  #metadataOf({ idempotencyKey, attempt, traceHeaders }: Invocation): Metadata {
    const metadata = this.#metadata();
    metadata.set("onceflow-attempt", String(attempt));
    if (idempotencyKey !== undefined) metadata.set("idempotency-key-bin", Buffer.from(idempotencyKey));
    for (const name of ["traceparent", "tracestate"]) {
      const value = traceHeaders[name];
      if (typeof value === "string" && /^[\x21-\x7e][\x20-\x7e]*$/.test(value)) metadata.set(name, value);
    }
    return metadata;
  }

  #call<Response>(send: (answer: Callback<Response>) => ClientUnaryCall, signal: AbortSignal, what: string): Promise<Response> {
    return new Promise((resolve, reject) => {
      if (signal.aborted) return reject(abortError(signal, what));
      const cancel = () => {
        reject(abortError(signal, what));
        call.cancel();
      };
      const call = send((error, response) => {
        signal.removeEventListener("abort", cancel);
        if (error === null) resolve(response as Response);
        else reject(this.#errorOf(error, what));
      });
      signal.addEventListener("abort", cancel, { once: true });
    });
  }

  /** Packets count when the stream has ended with `done`. */
  #collect(send: () => ClientReadableStream<InvokeStreamResponse>, signal: AbortSignal, what: string): Promise<readonly SentPacket[]> {
    const { answerBytesMax } = this.#policy;
    return new Promise((resolve, reject) => {
      if (signal.aborted) return reject(abortError(signal, what));
      const packets: SentPacket[] = [];
      let bytes = 0;
      const stream = send();
      const end = (settle: () => void) => {
        signal.removeEventListener("abort", cancel);
        settle();
        stream.cancel();
      };
      const fail = (error: unknown) => end(() => reject(error));
      const cancel = () => fail(abortError(signal, what));
      signal.addEventListener("abort", cancel, { once: true });
      stream.on("data", ({ output, done, error }: InvokeStreamResponse) => {
        try {
          if (error) throw failureOf(error, what);
          if (done) return end(() => resolve(packets));
          if (!output) return;
          bytes += output.dataJson.length;
          if (bytes > answerBytesMax) throw new NodeError("VALIDATION", `${what}: the answer is larger than ${answerBytesMax} bytes`);
          packets.push(readPacket(output, what));
        } catch (thrown) {
          fail(thrown);
        }
      });
      stream.on("error", (error: ServiceError) => fail(this.#errorOf(error, what)));
      stream.on("end", () => fail(new NodeError("TEMPORARY", `${what}: the answer was cut off`)));
    });
  }

  #errorOf(error: ServiceError, what: string): NodeError {
    const { status } = this.#loaded.grpc;
    const { code, details } = error;
    const isSize = code === status.RESOURCE_EXHAUSTED && /larger|bigger|exceed|size/i.test(details);
    if (isSize || code === status.INVALID_ARGUMENT) return new NodeError("VALIDATION", `${what}: ${details}`, error);
    if (code === status.DEADLINE_EXCEEDED) return new NodeError("TIMEOUT", `${what}: no answer before the deadline`, error);
    if (code === status.RESOURCE_EXHAUSTED) return new NodeError("RATE_LIMITED", `${what}: ${details}`, error);
    const advice = code === status.UNAVAILABLE ? "; check that the node server runs, its url and its certificates" : "";
    return new NodeError("TEMPORARY", `${what}: ${status[code] ?? code}: ${details}${advice}`, error);
  }
}

function failureOf(error: NonNullable<InvokeResponse["error"]>, what: string): NodeError {
  const read = errorOf(error);
  return read === undefined
    ? new NodeError("TEMPORARY", `${what}: answered with the unknown error code "${error.code}"`)
    : answeredError(read, what);
}

function readPacket(output: Parameters<typeof packetOf>[0], what: string): SentPacket {
  try {
    return packetOf(output);
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    throw new NodeError("VALIDATION", `${what}: ${why}; the node ran, and a repetition would return the same`, error);
  }
}
