import { InvalidInputError } from "../../../core/errors/errors.js";
import { knownOptions, type OptionNames } from "../../../core/errors/known-options.js";
import { sha256 } from "../../../core/values/canonical.js";
import { BaseNode, type NodeInput, NodeOutput } from "../../node/node.js";
import { type DeclaredNode, NodeType } from "../../node/node-type.js";
import { mustBeKeyed } from "../arrivals.js";
import { scopeOf, type TemplateScope, textTemplate, valueTemplate } from "../settings/template.js";
import { addressesSchema, addressSchema, addressTemplates, type MailAddress, mustBeOneLine, type WrittenAddress } from "./address.js";
import { connectSmtp, type Mail, type SendMail } from "./smtp.js";

/** Options of `email`: what a document must not decide by itself. */
export interface EmailOptions {
  /** The mail server: `smtps://user:password@host`. Default: the environment variable ONCEFLOW_SMTP_URL. */
  readonly smtp?: string;
}

const optionNames: OptionNames<EmailOptions> = { smtp: true };

interface Settings {
  readonly from: WrittenAddress;
  readonly to: WrittenAddress | readonly WrittenAddress[];
  readonly cc?: Settings["to"];
  readonly bcc?: Settings["to"];
  readonly replyTo?: Settings["to"];
  readonly subject: string;
  readonly text?: string;
  readonly html?: string;
  readonly output?: Readonly<Record<string, unknown>>;
  readonly withoutKey?: boolean;
  readonly timeoutMs?: number;
}

/**
 * The ready-made node `email`: sends one message for each packet by SMTP (the package nodemailer). The Message-ID is made from the
 * packet's key. SMTP has no keys: if the worker dies, or the connection ends, after the server has accepted the message and before
 * the outcome is saved, the message is sent a second time, with the same Message-ID. Throws InvalidInputError for wrong options.
 *
 * @example
 * // in the document: settings: { from: shop@example.com, to: "{{payload.email}}", subject: Your order, text: "Thank you." }
 * createRuntime({ store, documents, nodes: [email({ smtp: "smtps://user:password@mail.example.com" })] });
 */
export function email(options: EmailOptions = {}): NodeType {
  knownOptions("email", options, optionNames);
  return new NodeType({
    operationId: "email",
    settings: {
      required: ["from", "to", "subject"],
      properties: {
        ...{ from: addressSchema, to: addressesSchema, cc: addressesSchema, bcc: addressesSchema, replyTo: addressesSchema },
        subject: { type: "string", minLength: 1 },
        text: { type: "string" },
        html: { type: "string" },
        output: { type: "object" },
        withoutKey: { type: "boolean" },
        timeoutMs: { type: "integer", minimum: 1, maximum: 600_000 },
      },
    },
    make: (node) => new EmailNode(node, smtpUrl(options)),
  });
}

function smtpUrl({ smtp = process.env["ONCEFLOW_SMTP_URL"] }: EmailOptions): string {
  if (smtp === undefined || smtp === "")
    throw new InvalidInputError("email: smtp", "is missing; set it, or the environment variable ONCEFLOW_SMTP_URL");
  // The URL has a password, so the message does not show it.
  if (!URL.canParse(smtp) || !["smtp:", "smtps:"].includes(new URL(smtp).protocol))
    throw new InvalidInputError("email: smtp", "must be a URL such as smtps://user:password@mail.example.com");
  return smtp;
}

class EmailNode extends BaseNode {
  readonly operationId = "email";
  readonly #output: string;
  readonly #url: string;
  readonly #timeoutMs: number;
  readonly #mailOf: (input: NodeInput, scope: TemplateScope) => Mail;
  readonly #dataOf: ((scope: TemplateScope) => unknown) | undefined;
  #send: Promise<SendMail> | undefined;

  constructor(node: DeclaredNode, url: string) {
    super();
    const settings = node.settings as unknown as Settings;
    if (settings.withoutKey !== true) mustBeKeyed(node, "a message that is sent twice would have two Message-IDs");
    this.#output = node.output;
    this.#url = url;
    this.#timeoutMs = settings.timeoutMs ?? 60_000;
    this.#mailOf = mailTemplate(settings);
    this.#dataOf = settings.output && valueTemplate("settings.output", settings.output, { response: true });
  }

  /** Loads nodemailer, so that a missing package is an error when the runtime starts. */
  override async init(): Promise<void> {
    await this.#sender();
  }

  async handle(input: NodeInput): Promise<NodeOutput> {
    const scope = scopeOf(input);
    const mail = this.#mailOf(input, scope);
    const send = await this.#sender();
    const sent = await send(mail, input.context.signal);
    const data = this.#dataOf === undefined ? sent : this.#dataOf({ ...scope, response: sent });
    return new NodeOutput().send(this.#output, data as Readonly<Record<string, unknown>>);
  }

  #sender(): Promise<SendMail> {
    this.#send ??= connectSmtp(this.#url, this.#timeoutMs);
    return this.#send;
  }
}

function mailTemplate(settings: Settings): (input: NodeInput, scope: TemplateScope) => Mail {
  const { text, html } = settings;
  if (text === undefined && html === undefined) throw new InvalidInputError("settings", "must have `text`, `html` or both");
  const addresses = (name: "from" | "to" | "cc" | "bcc" | "replyTo") => addressTemplates(`settings.${name}`, settings[name] ?? []);
  const [from, to, cc, bcc, replyTo] = [addresses("from"), addresses("to"), addresses("cc"), addresses("bcc"), addresses("replyTo")];
  const subject = textTemplate("settings.subject", settings.subject, {});
  const plain = text === undefined ? undefined : textTemplate("settings.text", text, {});
  const rich = html === undefined ? undefined : textTemplate("settings.html", html, {}, escaped);
  return (input, scope) => {
    const [sender] = from(scope) as [MailAddress];
    const title = subject(scope);
    mustBeOneLine("settings.subject", title);
    return {
      ...{ from: sender, to: to(scope), cc: cc(scope), bcc: bcc(scope), replyTo: replyTo(scope), subject: title },
      ...(plain && { text: plain(scope) }),
      ...(rich && { html: rich(scope) }),
      messageId: messageIdOf(input, sender),
    };
  };
}

/** The same for every attempt, different for every flow, node and key. */
function messageIdOf({ context: { flowId, nodeId, idempotencyKey } }: NodeInput, { address }: MailAddress): string | undefined {
  if (idempotencyKey === undefined) return undefined;
  return `<${sha256(JSON.stringify([flowId, nodeId, idempotencyKey])).slice(0, 40)}@${address.slice(address.lastIndexOf("@") + 1)}>`;
}

const entities: Readonly<Record<string, string>> = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;" };

function escaped(value: string): string {
  return value.replace(/[&<>"']/g, (character) => entities[character] ?? character);
}
