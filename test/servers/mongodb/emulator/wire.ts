import { createServer, type Server, type Socket } from "node:net";
import { BSON } from "mongodb";

/** The two messages of MongoDB's wire protocol that a driver sends: OP_MSG, and OP_QUERY for its first hello. */
const opReply = 1;
const opQuery = 2004;
const opMsg = 2013;

const moreToCome = 1 << 1;
const exhaustAllowed = 1 << 16;

export type Doc = Record<string, unknown>;

/** Answers commands on a loopback port. Commands of one connection are answered one after another. */
export function serveWire(port: number, answer: (command: Doc) => Promise<Doc>): Promise<Server> {
  const server = createServer((socket) => {
    socket.setNoDelay(true);
    socket.on("error", () => {});
    let rest: Buffer = Buffer.alloc(0);
    let last = Promise.resolve();
    socket.on("data", (chunk) => {
      rest = rest.length === 0 ? chunk : Buffer.concat([rest, chunk]);
      for (; rest.length >= 4 && rest.length >= rest.readInt32LE(0); rest = rest.subarray(rest.readInt32LE(0))) {
        const message = rest.subarray(0, rest.readInt32LE(0));
        last = last.then(() => reply(socket, message, answer));
      }
    });
  });
  return new Promise((listening, failed) => {
    server.once("error", failed);
    server.listen(port, "127.0.0.1", () => listening(server));
  });
}

let replies = 0;

async function reply(socket: Socket, message: Buffer, answer: (command: Doc) => Promise<Doc>): Promise<void> {
  const [id, operation] = [message.readInt32LE(4), message.readInt32LE(12)];
  const command = operation === opQuery ? queryOf(message) : commandOf(message);
  // A driver that monitors a server asks once and gets a stream of replies, each in reply to the one before.
  const streams = operation === opMsg && (message.readUInt32LE(16) & exhaustAllowed) !== 0 && command["topologyVersion"] !== undefined;
  let to = id;
  do {
    const body = BSON.serialize(await answer(command));
    // OP_REPLY: flags, cursor id, start position, one document. OP_MSG: flags, one section of kind 0.
    const head = Buffer.alloc(operation === opQuery ? 36 : 21);
    replies = (replies + 1) % 2 ** 30;
    head.writeInt32LE(head.length + body.length, 0);
    head.writeInt32LE(replies, 4);
    head.writeInt32LE(to, 8);
    head.writeInt32LE(operation === opQuery ? opReply : opMsg, 12);
    if (streams) head.writeUInt32LE(moreToCome, 16);
    if (operation === opQuery) head.writeInt32LE(1, 32);
    if (!socket.destroyed) socket.write(Buffer.concat([head, body]));
    to = replies;
  } while (streams && !socket.destroyed);
}

function queryOf(message: Buffer): Doc {
  const start = message.indexOf(0, 20) + 9;
  return BSON.deserialize(message.subarray(start));
}

/** A section of kind 1 is a sequence of documents: a member of the command that is sent separately. */
function commandOf(message: Buffer): Doc {
  const command: Doc = {};
  for (let at = 20; at < message.length; ) {
    const kind = message.readUInt8(at);
    const size = message.readInt32LE(at + 1);
    if (kind === 0) Object.assign(command, BSON.deserialize(message.subarray(at + 1, at + 1 + size)));
    else {
      const nameEnd = message.indexOf(0, at + 5);
      const documents: Doc[] = [];
      for (let next = nameEnd + 1; next < at + 1 + size; next += message.readInt32LE(next))
        documents.push(BSON.deserialize(message.subarray(next, next + message.readInt32LE(next))));
      command[message.toString("utf8", at + 5, nameEnd)] = documents;
    }
    at += 1 + size;
  }
  return command;
}
