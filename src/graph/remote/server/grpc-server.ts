import type { Metadata, Server, ServerUnaryCall, ServerWritableStream, sendUnaryData } from "@grpc/grpc-js";
import { type LoadedGrpc, loadGrpc } from "../grpc/load.js";
import {
  errorMessage,
  type InvokeRequest,
  type InvokeResponse,
  type InvokeStreamResponse,
  invocationOf,
  outputMessage,
  responseOf,
} from "../grpc/messages.js";
import { type Answer, failed } from "../protocol/answer.js";
import { tokenCheck } from "../protocol/token.js";
import { cannotListen } from "./cannot-listen.js";
import type { Invoker } from "./invoker.js";
import { manifestOf } from "./manifest.js";
import type { NodeServerPolicy } from "./options.js";

/** Serves an invoker over gRPC. Resolves when the server listens. */
export async function listenGrpc(
  invoker: Invoker,
  policy: NodeServerPolicy,
  port: number,
): Promise<{ readonly port: number; readonly close: () => Promise<void> }> {
  const loaded = loadGrpc();
  const { grpc, service } = loaded;
  const { host, bodyBytesMax } = policy;
  // The answer may be larger than the request: only the caller limits it.
  const server = new grpc.Server({ "grpc.max_receive_message_length": bodyBytesMax, "grpc.max_send_message_length": -1 });
  server.addService(service, handlers(loaded, invoker, policy));
  const bound = await new Promise<number>((resolve, reject) => {
    server.bindAsync(`${host.includes(":") ? `[${host}]` : host}:${port}`, credentialsOf(loaded, policy), (error, at) => {
      if (error === null) resolve(at);
      else reject(cannotListen(host, port, /EADDRINUSE/.test(error.message) ? "EADDRINUSE" : error.message, error));
    });
  });
  return { port: bound, close: () => closeServer(server) };
}

function credentialsOf({ grpc }: LoadedGrpc, { tls }: NodeServerPolicy) {
  if (tls === undefined) return grpc.ServerCredentials.createInsecure();
  const pair = { cert_chain: Buffer.from(tls.cert), private_key: Buffer.from(tls.key) };
  return grpc.ServerCredentials.createSsl(
    tls.clientCa === undefined ? null : Buffer.from(tls.clientCa),
    [pair],
    tls.clientCa !== undefined,
  );
}

function handlers({ grpc: { status } }: LoadedGrpc, invoker: Invoker, policy: NodeServerPolicy) {
  const hasToken = tokenCheck(policy.token);
  const refused = { code: status.UNAUTHENTICATED, details: "the token is missing or wrong" };
  const isRefused = (metadata: Metadata) => !hasToken(metadata.get("authorization").map(String)[0]);
  return {
    Invoke(call: ServerUnaryCall<InvokeRequest, InvokeResponse>, answer: sendUnaryData<InvokeResponse>): void {
      if (isRefused(call.metadata)) return answer(refused);
      void invoke(call.request, call.getDeadline(), invoker).then((given) => {
        if (given.error !== undefined && given.status === 400) answer({ code: status.INVALID_ARGUMENT, details: given.error.message });
        else answer(null, responseOf(given));
      });
    },
    InvokeStream(call: ServerWritableStream<InvokeRequest, InvokeStreamResponse>): void {
      if (isRefused(call.metadata)) return void call.emit("error", refused);
      void invoke(call.request, call.getDeadline(), invoker).then((given) => {
        if (given.error !== undefined && given.status === 400)
          return void call.emit("error", { code: status.INVALID_ARGUMENT, details: given.error.message });
        if (given.error !== undefined) call.write({ error: errorMessage(given.error) });
        else {
          for (const output of given.outputs) call.write({ output: outputMessage(output) });
          call.write({ done: { replayed: given.replayed } });
        }
        call.end();
      });
    },
    Health(_call: ServerUnaryCall<object, object>, answer: sendUnaryData<object>): void {
      const { isStopping, inFlight } = invoker;
      answer(null, { status: isStopping ? "STOPPING" : "SERVING", inFlight, concurrency: policy.concurrency });
    },
    Manifest(call: ServerUnaryCall<object, object>, answer: sendUnaryData<object>): void {
      if (isRefused(call.metadata)) return answer(refused);
      const { protocol, sdk, nodes } = manifestOf(policy);
      answer(null, { protocol, sdkLanguage: sdk.language, sdkVersion: sdk.version, nodes });
    },
  };
}

/** A malformed request is an answer with status 400. */
async function invoke(request: InvokeRequest, deadline: Date | number, invoker: Invoker): Promise<Answer> {
  const leftMs = Number(deadline) - Date.now();
  try {
    return await invoker.invoke(invocationOf(request, Number.isFinite(leftMs) ? Math.max(1, Math.floor(leftMs)) : undefined));
  } catch (error) {
    // Only invocationOf throws.
    return failed("VALIDATION", error instanceof Error ? error.message : "", { status: 400 });
  }
}

/** Answers that are still being sent get a moment. */
const closeMsMax = 1000;

function closeServer(server: Server): Promise<void> {
  return new Promise((resolve) => {
    const late = setTimeout(() => server.forceShutdown(), closeMsMax);
    server.tryShutdown(() => {
      clearTimeout(late);
      resolve();
    });
  });
}
