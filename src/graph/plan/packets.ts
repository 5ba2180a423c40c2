import { closest } from "../../core/errors/closest.js";
import type { Findings } from "../findings/finding.js";
import type { Components } from "../load/components.js";
import { type External, externalPrefix } from "../load/external.js";
import { childOf, follow, nameIn, type Spot, type Tree } from "../load/tree.js";
import type { Message } from "../normalise/model.js";
import { messageOf } from "../normalise/node.js";
import { type JsonSchema, SchemaCompiler } from "../schema/compiler.js";
import { Explanations, type Problem } from "../schema/explain.js";
import { SchemaChecks } from "../schema/schema-check.js";
import { isValid } from "../schema/verdict.js";

/** A way in which a packet does not match its schema. */
export type PacketProblem = Problem;

/** A type of packet, with its schema. */
export interface PacketType {
  readonly name: string;
  /** The reference in the document; undefined for an inline schema. */
  readonly ref?: string;
  /** JSON Schema draft-07: a reference to one of the definitions. */
  readonly schema: JsonSchema;
  /** The definitions of the document, shared by all its packets. */
  readonly definitions: Readonly<Record<string, JsonSchema>>;
  /** Returns up to ten problems; an empty list if the packet is valid. Does not throw. */
  readonly check: (packet: unknown) => readonly PacketProblem[];
}

const noProblems: readonly PacketProblem[] = Object.freeze([]);
const problemsMax = 10;
const hopsMax = 20;

/**
 * The packet types of a document: finds and compiles their schemas, and checks packets. If a packet fails its check, a second pass
 * over the schema explains why. Neither generates code, and both take time linear in the size of the packet.
 */
export class PacketTypes {
  readonly #compiler: SchemaCompiler;
  readonly #known = new Map<Tree, PacketType>();
  readonly #checks: SchemaChecks;
  readonly #explanations: Explanations;

  constructor(
    private readonly root: Tree,
    private readonly components: Components,
    private readonly external: External,
    private readonly findings: Findings,
  ) {
    this.#compiler = new SchemaCompiler((ref, from, schemaRoots) => this.#followInSchema(ref, from, schemaRoots), findings);
    this.#checks = new SchemaChecks(this.#compiler.definitions);
    this.#explanations = new Explanations(this.#compiler.definitions, this.#checks);
  }

  resolved(schema: JsonSchema): JsonSchema {
    return this.#compiler.resolved(schema);
  }

  /** Undefined if the packet does not exist or its document was not loaded; a finding reports either. */
  of(message: Message | undefined): PacketType | undefined {
    if (message === undefined) return undefined;
    const { ref } = message;
    const spot = ref === undefined ? message.spot : this.#follow(ref, message.spot, 0);
    if (spot === undefined) return undefined;
    const known = this.#known.get(spot.tree);
    if (known !== undefined) return known;
    const definition = this.#compiler.define(spot);
    const check = this.#checks.of(definition);
    const type: PacketType = {
      name: ref?.split(/[/#]/).at(-1) ?? "inline",
      ...(ref !== undefined && { ref }),
      schema: { $ref: `#/definitions/${definition}` },
      definitions: this.#compiler.definitions,
      check: (packet) => (isValid(check, packet) ? noProblems : this.#explanations.of(definition, packet, problemsMax)),
    };
    this.#known.set(spot.tree, type);
    return type;
  }

  /** Compiles unused packets too, so that their errors are found before their first use. */
  checkUnused(): void {
    for (const section of ["packets", "events"] as const)
      for (const name of this.components.names(section)) {
        const component = this.components.get(section, name);
        const spot = component && (section === "events" ? this.#payloadOf(component, 0) : component);
        if (spot !== undefined) this.of({ spot });
      }
  }

  #follow(ref: string, from: Spot, hops: number): Spot | undefined {
    const prefix = externalPrefix(ref);
    if (hops > hopsMax) return this.#badRef(ref, from, "is circular");
    if (prefix !== undefined) return this.#followExternal(prefix, ref, from);
    const local = /^#\/components\/(events|packets)\/(.+)$/.exec(ref);
    if (local === null && ref.includes("#")) return this.#badRef(ref, from, "does not refer to a packet or an event");
    const [section, name] = local === null ? (["packets", ref] as const) : [local[1] as "events" | "packets", local[2] ?? ""];
    const spot = this.components.get(section, nameIn(name));
    if (spot !== undefined) return section === "events" ? this.#payloadOf(spot, hops) : spot;
    this.findings.add("FLOW_UNKNOWN_PACKET", from, `"${name}" not found in components.${section}`, () => {
      const near = closest(name, this.components.names(section));
      return near === undefined ? `add it to components.${section}` : `did you mean "${near}"?`;
    });
    return undefined;
  }

  /** An event has its schema in `payload`, or is itself a schema. */
  #payloadOf(event: Spot, hops: number): Spot | undefined {
    const payload = childOf(event, "payload");
    if (payload === undefined) return event;
    const message = messageOf(payload, this.findings);
    return message?.ref === undefined ? message?.spot : this.#follow(message.ref, message.spot, hops + 1);
  }

  #followExternal(prefix: string, ref: string, from: Spot): Spot | undefined {
    if (!this.external.documents.has(prefix)) return this.#badRef(ref, from, `requires externalDocs.${prefix.replace(":", ".")}`);
    const document = this.external.documents.get(prefix);
    if (document === undefined) return undefined;
    const spot = follow(document, ref.slice(prefix.length + 1));
    if (spot === undefined) return this.#badRef(ref, from, "was not found in that document");
    return (prefix.startsWith("asyncapi") ? childOf(spot, "payload") : undefined) ?? spot;
  }

  /** Follows a `$ref` in a schema: within its own document, or as in the rest of the flow document. */
  #followInSchema(ref: string, from: Spot, schemaRoots: readonly Spot[]): Spot | undefined {
    if (from.tree.source !== this.root.source) {
      const document = [...this.external.documents.values()].find((one) => one?.source === from.tree.source);
      const spot = document && ref.startsWith("#/") ? follow(document, ref.slice(1)) : undefined;
      return spot ?? this.#badRef(ref, from, "was not found in its document");
    }
    if (/^#\/components\/(events|packets)\//.test(ref) || !ref.startsWith("#")) return this.#follow(ref, from, 0);
    if (!/^#(?:\/|$)/.test(ref)) return this.#badRef(ref, from, "is not a JSON pointer");
    for (const root of schemaRoots) {
      const spot = follow(root.tree, ref.slice(1));
      if (spot !== undefined) return { tree: spot.tree, pointer: root.pointer + spot.pointer };
    }
    return follow(this.root, ref.slice(1)) ?? this.#badRef(ref, from, "was not found");
  }

  #badRef(ref: string, from: Spot, why: string): undefined {
    this.findings.add(
      "FLOW_BAD_REF",
      from,
      `"${ref.slice(0, 100)}" ${why}`,
      "refer to #/components/packets/…, #/components/events/…, asyncapi#/… or openapi#/…",
    );
    return undefined;
  }
}
