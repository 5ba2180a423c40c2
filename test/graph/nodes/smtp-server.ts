import type { AddressInfo } from "node:net";
import { SMTPServer } from "smtp-server";

/** What the mail server has accepted. */
interface AcceptedMail {
  readonly messageId: string | undefined;
  readonly to: readonly string[];
  readonly source: string;
}

export interface MailServer {
  readonly url: string;
  readonly accepted: readonly AcceptedMail[];
}

interface Behaviour {
  /** Answers a message: an SMTP code to refuse it, "cut" to accept it and end the connection without an answer. Default: accepts. */
  readonly answer?: (no: number) => number | "cut" | undefined;
  /** Called when a message was accepted, before the answer is sent. */
  readonly onAccepted?: () => void;
}

/** A mail server on loopback that speaks SMTP and keeps the messages that it accepts. */
export async function serveMail(
  onEnd: (end: () => Promise<void>) => void,
  { answer = () => undefined, onAccepted = () => {} }: Behaviour = {},
): Promise<MailServer> {
  const accepted: AcceptedMail[] = [];
  let count = 0;
  const server = new SMTPServer({
    authOptional: true,
    disabledCommands: ["STARTTLS"],
    async onData(stream, session, callback) {
      const source = Buffer.concat((await stream.toArray()) as Buffer[]).toString();
      count += 1;
      const how = answer(count);
      if (typeof how === "number") return callback(Object.assign(new Error("refused"), { responseCode: how }));
      const messageId = /^Message-ID: (.*)$/im.exec(source)?.[1]?.trim();
      accepted.push({ messageId, to: session.envelope.rcptTo.map(({ address }) => address), source });
      onAccepted();
      if (how === undefined) return callback(null, "accepted");
      for (const connection of server.connections) connection.close();
    },
  });
  server.on("error", () => {});
  await new Promise<void>((ready) => server.listen(0, "127.0.0.1", ready));
  onEnd(() => new Promise<void>((closed) => server.close(() => closed())));
  return { url: `smtp://127.0.0.1:${(server.server.address() as AddressInfo).port}`, accepted };
}
