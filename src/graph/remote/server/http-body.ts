import type { IncomingMessage } from "node:http";
import { failed } from "../protocol/answer.js";
import { type PacketData, parseJsonObject } from "../protocol/json.js";

/** Reads the body as a JSON object of at most `bytesMax` bytes, or returns the answer that refuses it. */
export async function readBody(
  request: IncomingMessage,
  bytesMax: number,
): Promise<{ readonly body: PacketData } | ReturnType<typeof failed>> {
  const [type = ""] = (request.headers["content-type"] ?? "").split(";");
  // Web pages can send other media types across origins without a preflight: a page must not call nodes on loopback.
  if (!/^application\/([\w.-]+\+)?json$/i.test(type.trim()))
    return failed("VALIDATION", "the content type must be application/json", { status: 415 });
  if (!/^(identity)?$/i.test(request.headers["content-encoding"] ?? ""))
    return failed("VALIDATION", "compressed bodies are not supported; leave out content-encoding", { status: 415 });
  const bytes = await take(request, bytesMax);
  if (bytes === "too large") return failed("VALIDATION", `the body is larger than ${bytesMax} bytes, the limit`, { status: 413 });
  if (bytes === "cut off") return failed("VALIDATION", "the body is incomplete", { status: 400 });
  try {
    return { body: parseJsonObject(bytes) };
  } catch (error) {
    return failed("VALIDATION", `the body ${error instanceof Error ? error.message : ""}`, { status: 400 });
  }
}

function take(request: IncomingMessage, bytesMax: number): Promise<Buffer | "too large" | "cut off"> {
  if (Number(request.headers["content-length"] ?? 0) > bytesMax) return Promise.resolve("too large");
  return new Promise((resolve) => {
    const chunks: Buffer[] = [];
    let length = 0;
    request.on("data", (chunk: Buffer) => {
      length += chunk.length;
      if (length > bytesMax) {
        request.removeAllListeners("data");
        resolve("too large");
      } else chunks.push(chunk);
    });
    request.once("end", () => resolve(Buffer.concat(chunks)));
    request.once("error", () => resolve("cut off"));
    request.once("close", () => resolve("cut off"));
  });
}
