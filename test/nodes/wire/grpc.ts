import { type Client, credentials, loadPackageDefinition, Metadata, type ServiceError, status } from "@grpc/grpc-js";
import { loadSync } from "@grpc/proto-loader";
import { bodyOf, type InvokeBody, type Wire, type WireAnswer, type WireManifest } from "./wire.js";

/** Reads the published .proto file, not the module that the package has made of it. */
const definition = loadSync(new URL("../../../schema/flowdsl/node/v1/node.proto", import.meta.url).pathname, {
  ...{ longs: Number, enums: String, defaults: true, oneofs: true },
});

interface NodeService extends Client {
  Invoke(request: object, metadata: Metadata, options: object, answer: Answer): void;
  InvokeStream(request: object, metadata: Metadata, options: object): AsyncIterable<StreamMessage>;
  Health(request: object, answer: Answer): void;
  Manifest(request: object, metadata: Metadata, answer: Answer): void;
}
// biome-ignore lint/suspicious/noExplicitAny: proto-loader reads messages at run time
type Answer = (error: ServiceError | null, response?: any) => void;
interface OutputMessage {
  readonly port: string;
  readonly dataJson: Buffer;
}
interface StreamMessage {
  readonly event?: string;
  readonly output?: OutputMessage;
  readonly done?: { readonly replayed: boolean };
  readonly error?: WireAnswer;
}

export function grpcWire(url: string): Wire {
  const { flowdsl } = loadPackageDefinition(definition) as unknown as {
    readonly flowdsl: { readonly node: { readonly v1: { readonly NodeService: new (...args: unknown[]) => NodeService } } };
  };
  const client = new flowdsl.node.v1.NodeService(url.replace(/^grpc:\/\//, ""), credentials.createInsecure(), {
    "grpc.max_receive_message_length": 20 * 1024 * 1024,
  });
  const metadataOf = (token?: string): Metadata => {
    const metadata = new Metadata();
    if (token !== undefined) metadata.set("authorization", `Bearer ${token}`);
    return metadata;
  };
  const call = <T>(send: (answer: Answer) => void) =>
    new Promise<T>((resolve, reject) => send((error, response) => (error === null ? resolve(response as T) : reject(error))));
  return {
    async invoke(operationId, given, token) {
      const { request, options } = requestOf(operationId, given);
      try {
        const { outputs, replayed, error } = await call<{
          outputs: OutputMessage[];
          replayed: boolean;
          error: WireAnswer | null;
        }>((answer) => client.Invoke(request, metadataOf(token), options, answer));
        return error ? errorOf(error) : { outputs: outputs.map(packetOf), replayed };
      } catch (error) {
        return answerOfStatus(error as ServiceError);
      }
    },
    async stream(operationId, given) {
      const { request, options } = requestOf(operationId, given);
      const outputs: { port: string; data: unknown }[] = [];
      try {
        for await (const { output, done, error } of client.InvokeStream(request, new Metadata(), options)) {
          if (output) outputs.push(packetOf(output));
          else if (error) return errorOf(error);
          else if (done) return { outputs, replayed: done.replayed };
        }
      } catch (error) {
        return answerOfStatus(error as ServiceError);
      }
      throw new Error("the stream ended without done and error");
    },
    async health() {
      const { status: state, ...rest } = await call<Awaited<ReturnType<Wire["health"]>>>((answer) => client.Health({}, answer));
      return { ...rest, status: state.toLowerCase() };
    },
    async manifest(token) {
      try {
        const { protocol, sdkLanguage, sdkVersion, nodes } = await call<{
          protocol: string;
          sdkLanguage: string;
          sdkVersion: string;
          nodes: WireManifest["nodes"];
        }>((answer) => client.Manifest({}, metadataOf(token), answer));
        return { protocol, nodes, sdk: { language: sdkLanguage, version: sdkVersion } };
      } catch (error) {
        if ((error as ServiceError).code === status.UNAUTHENTICATED) return undefined;
        throw error;
      }
    },
    close: () => client.close(),
  };
}

function requestOf(operationId: string, given: InvokeBody) {
  const { deadlineMs, settings, inputs, ...rest } = bodyOf(given);
  const bytes = (value: unknown) => (Buffer.isBuffer(value) ? value : Buffer.from(JSON.stringify(value)));
  const inputsJson = Object.fromEntries(Object.entries(inputs ?? {}).map(([port, data]) => [port, bytes(data)]));
  return {
    request: { operationId, ...rest, settingsJson: bytes(settings), inputsJson },
    options: deadlineMs === undefined ? {} : { deadline: Date.now() + deadlineMs },
  };
}

const packetOf = ({ port, dataJson }: OutputMessage) => ({ port, data: JSON.parse(dataJson.toString()) as unknown });

function errorOf({ code = "", message = "", retryAfterMs = 0 }: WireAnswer): WireAnswer {
  return { code, message, ...(retryAfterMs === 0 ? {} : { retryAfterMs }) };
}

/** What the protocol page says about statuses. */
function answerOfStatus({ code, details }: ServiceError): WireAnswer {
  const isSize = code === status.RESOURCE_EXHAUSTED && /larger|bigger|exceed|size/i.test(details);
  if (code === status.INVALID_ARGUMENT || isSize) return { code: "VALIDATION", message: details };
  if (code === status.DEADLINE_EXCEEDED) return { code: "TIMEOUT", message: details };
  return { code: code === status.RESOURCE_EXHAUSTED ? "RATE_LIMITED" : "TEMPORARY", message: details };
}
