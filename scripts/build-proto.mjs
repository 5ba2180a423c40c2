// Writes src/graph/remote/grpc/descriptor.ts from schema/flowdsl/node/v1/node.proto, so that bundlers and plain tsc need nothing
// but modules. With --check it writes nothing, and fails if the module is not what the .proto file says.
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import protobuf from "protobufjs";

const root = join(import.meta.dirname, "..");
const proto = "schema/flowdsl/node/v1/node.proto";
const path = "src/graph/remote/grpc/descriptor.ts";

const { nested } = protobuf.parse(readFileSync(join(root, proto), "utf8"), { alternateCommentMode: false }).root.toJSON();
const text = `// Made of ${proto} by scripts/build-proto.mjs (npm run build). Edit that.

/** The messages and the service of node.proto, in the JSON form of protobufjs. */
export const descriptor: string =
  '${JSON.stringify({ nested })}';
`;

if (!existsSync(join(root, path)) || readFileSync(join(root, path), "utf8") !== text) {
  if (process.argv.includes("--check")) {
    console.error(`${path}: not what ${proto} says. Run: npm run build`);
    process.exitCode = 1;
  } else writeFileSync(join(root, path), text);
}
