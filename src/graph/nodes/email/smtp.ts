import { ConfigurationError } from "../../../core/errors/errors.js";
import { NodeError } from "../../node/node-error.js";
import type { MailAddress } from "./address.js";

/** A message for the server. */
export interface Mail {
  readonly from: MailAddress;
  readonly to: readonly MailAddress[];
  readonly cc: readonly MailAddress[];
  readonly bcc: readonly MailAddress[];
  readonly replyTo: readonly MailAddress[];
  readonly subject: string;
  readonly text?: string;
  readonly html?: string;
  /** Undefined: a random one. */
  readonly messageId: string | undefined;
}

interface SentMail {
  readonly messageId: string;
  readonly accepted: readonly string[];
  readonly rejected: readonly string[];
}

/** Sends one message. Rejects with a NodeError, whose code says whether the server may have accepted the message. */
export type SendMail = (mail: Mail, signal: AbortSignal) => Promise<SentMail>;

/** Loads nodemailer. Throws ConfigurationError (`MISSING_DRIVER`) if it is not installed. Connects when a message is sent. */
export async function connectSmtp(url: string, timeoutMs: number): Promise<SendMail> {
  const { createTransport } = await loadNodemailer();
  const limits = { connectionTimeout: timeoutMs, greetingTimeout: timeoutMs, dnsTimeout: timeoutMs, socketTimeout: timeoutMs };
  const transport = createTransport({ url, ...limits, disableFileAccess: true, disableUrlAccess: true });
  return async ({ messageId, ...mail }, signal) => {
    const limit = AbortSignal.timeout(timeoutMs);
    const message = { ...mail, ...(messageId !== undefined && { messageId }), signal: AbortSignal.any([signal, limit]) };
    try {
      const sent = await transport.sendMail({
        ...message,
        to: [...mail.to],
        cc: [...mail.cc],
        bcc: [...mail.bcc],
        replyTo: [...mail.replyTo],
      });
      return { messageId: String(sent.messageId), accepted: sent.accepted.map(textOf), rejected: sent.rejected.map(textOf) };
    } catch (error) {
      if (signal.aborted && NodeError.is(signal.reason)) throw signal.reason;
      if (limit.aborted) throw new NodeError("TIMEOUT", `not sent within ${timeoutMs} ms; ${maybe}`);
      throw smtpError(error);
    }
  };
}

async function loadNodemailer(): Promise<typeof import("nodemailer")> {
  try {
    return await import("nodemailer");
  } catch (error) {
    throw new ConfigurationError('[onceflow] [email] the package "nodemailer" is not installed: npm install nodemailer', {
      code: "MISSING_DRIVER",
      cause: error,
    });
  }
}

const maybe = "the mail server may have accepted the message";

/** The text of an address, as nodemailer reports it. */
function textOf(address: string | { readonly address?: string | undefined }): string {
  return typeof address === "string" ? address : (address.address ?? "");
}

/**
 * By what is known about the message. TEMPORARY and PERMANENT: the server did not accept it. NETWORK_ERROR: the connection ended
 * before the server's answer, and the message may have been accepted. Messages have codes only: texts of servers contain addresses.
 */
export function smtpError(error: unknown): NodeError {
  const {
    code = "",
    responseCode,
    syscall,
  } = error as { readonly code?: string; readonly responseCode?: number; readonly syscall?: string };
  if (responseCode !== undefined) {
    const kind = responseCode >= 500 ? "PERMANENT" : "TEMPORARY";
    return new NodeError(kind, `the mail server answered ${responseCode}; the message was not accepted`);
  }
  if (code === "EENVELOPE" || code === "EMESSAGE") return new NodeError("VALIDATION", `the message cannot be sent: ${code}`);
  if (code === "ECONFIG" || code === "ENOAUTH" || code === "EAUTH")
    return new NodeError("PERMANENT", `the mail server cannot be used: ${code}`);
  if (syscall === "connect" || ["EDNS", "ETLS", "ECONNREFUSED"].includes(code))
    return new NodeError("TEMPORARY", `the mail server is unreachable: ${code}; nothing was sent`);
  return new NodeError("NETWORK_ERROR", `the connection to the mail server ended: ${code || "unknown"}; ${maybe}`);
}
