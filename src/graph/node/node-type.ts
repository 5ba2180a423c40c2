import { ConfigurationError, InvalidInputError } from "../../core/errors/errors.js";
import { nearest } from "../../core/errors/known-options.js";
import { printable } from "../../core/errors/printable.js";
import type { Place } from "../findings/finding.js";
import type { DeliveryMode } from "../normalise/model.js";
import type { JsonSchema } from "../schema/compiler.js";
import { Explanations } from "../schema/explain.js";
import { SchemaChecks } from "../schema/schema-check.js";
import { isValid } from "../schema/verdict.js";
import type { FlowNode } from "./node.js";

/** Settings of a node, as the document has them. */
export type NodeSettings = Readonly<Record<string, unknown>>;

/** A node of a document, as its type sees it. */
export interface DeclaredNode {
  readonly id: string;
  readonly settings: NodeSettings;
  /** The port that the node sends to: the first output that the document declares, else `out`. */
  readonly output: string;
  /** The edges and entry points that lead to the node. */
  readonly arrivals: readonly { readonly name: string; readonly mode: DeliveryMode; readonly keyed: boolean }[];
  readonly place?: Place;
}

/** What a node type consists of. */
export interface NodeTypeDefinition {
  readonly operationId: string;
  /** JSON Schema of the settings: an object with `properties`. Other properties are refused. */
  readonly settings: Readonly<Record<string, unknown>> & { readonly properties: Readonly<Record<string, JsonSchema>> };
  /** Makes the code of one node. The settings match the schema. Throws InvalidInputError for a setting with a wrong value. */
  readonly make: (node: DeclaredNode) => FlowNode;
}

const problemsMax = 10;

/**
 * A ready-made node: each node of a document with its operationId gets code of its own, made from that node's settings when the
 * runtime starts.
 */
export class NodeType {
  /** The operationId that documents use. */
  readonly operationId: string;
  /** JSON Schema of the settings. */
  readonly settingsSchema: JsonSchema;
  readonly #definition: NodeTypeDefinition;
  readonly #problemsIn: (settings: NodeSettings) => readonly { readonly pointer: string; readonly message: string }[];

  /** @internal */
  constructor(definition: NodeTypeDefinition) {
    this.operationId = definition.operationId;
    this.settingsSchema = { type: "object", additionalProperties: false, ...definition.settings };
    this.#definition = definition;
    const definitions = { settings: this.settingsSchema };
    const checks = new SchemaChecks(definitions);
    const explanations = new Explanations(definitions, checks);
    this.#problemsIn = (settings) => (isValid(checks.of("settings"), settings) ? [] : explanations.of("settings", settings, problemsMax));
  }

  /**
   * The node with these settings, as a function or BaseNode: for tests, and for a node whose settings are in the code. Throws
   * ConfigurationError (`NODE_SETTINGS`) for settings that do not match.
   *
   * @example
   * const node = transform().node({ fields: { total: "payload.net + payload.tax" } });
   */
  node(settings: NodeSettings): FlowNode {
    return this.make({ id: this.operationId, settings, output: "out", arrivals: [] });
  }

  /** @internal The code of a document's node. Throws ConfigurationError (`NODE_SETTINGS`). */
  make(declared: DeclaredNode): FlowNode {
    const { settings } = declared;
    const names = Object.keys(this.#definition.settings.properties);
    const unknown = Object.keys(settings).filter((name) => !names.includes(name));
    if (unknown.length > 0) throw this.#refuse(declared, unknown.map((name) => adviceOn(name, names)).join("; "));
    const problems = this.#problemsIn(settings);
    if (problems.length > 0)
      throw this.#refuse(declared, problems.map(({ pointer, message }) => `${pathOf(pointer)} ${message}`).join("; "));
    try {
      return this.#definition.make(declared);
    } catch (error) {
      if (error instanceof InvalidInputError) throw this.#refuse(declared, error.message);
      throw error;
    }
  }

  #refuse({ id, place }: DeclaredNode, problem: string): ConfigurationError {
    const where = place === undefined ? "" : `${place.file}:${place.line}:${place.column} `;
    return new ConfigurationError(printable(`[onceflow] ${where}node "${id}" (${this.operationId}): ${problem}`), {
      code: "NODE_SETTINGS",
    });
  }
}

function adviceOn(name: string, known: readonly string[]): string {
  const near = nearest(name, known);
  const advice = near === undefined ? `settings: ${known.join(", ")}` : `did you mean "${near}"?`;
  return `settings.${name} is not a setting; ${advice}`;
}

/** `/headers/accept` → `settings.headers.accept` */
function pathOf(pointer: string): string {
  return `settings${pointer.replaceAll("/", ".").replaceAll("~1", "/").replaceAll("~0", "~")}`;
}
