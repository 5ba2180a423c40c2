import type { Collection } from "mongodb";
import { ConfigurationError } from "../../../core/errors/errors.js";
import { isDuplicateKey } from "../errors.js";

const suffix = ".idempotency_keys";
/** MongoDB: a namespace (database, dot, collection) has at most 255 bytes, and 235 if the collection is to be sharded. */
const namespaceBytesMax = 235;
/** The prefix with which a flow's collection has no prefix: `{flowId}.idempotency_keys`. */
const plainPrefix = "onceflow";

/** A document of `onceflow_key_collections`: which flow of which store has the collection. Written once, never changed. */
export interface KeyCollectionDocument {
  /** The name of the collection. */
  readonly _id: string;
  /** The prefix of the store. */
  readonly prefix: string;
  readonly flow: string;
}

/** What the class needs from the store's database. */
interface KeyDatabase {
  readonly name: string;
  readonly registry: Collection<KeyCollectionDocument>;
  /** The prefix of the store's collections. */
  readonly prefix: string;
  /** Creates a collection of keys with its indexes. */
  create(collection: string): Promise<unknown>;
}

/** The flow whose keys a scope holds. Undefined: the scope is not one of flow keys, and its records are in `…_records`. */
export function flowOfScope(scope: string): string | undefined {
  return scope.endsWith(suffix) && scope.length > suffix.length ? scope.slice(0, -suffix.length) : undefined;
}

/**
 * The collections that hold the keys of flows: `{flowId}.idempotency_keys`, or the name that the flow's document asks for. The name
 * is registered before the first key is written and never changes, so all processes look for a key in the same collection.
 */
export class KeyCollections {
  readonly #known = new Map<string, string>();
  readonly #database: KeyDatabase;
  readonly #prefix: string;

  constructor(database: KeyDatabase) {
    this.#database = database;
    this.#prefix = database.prefix;
  }

  /** The collection of a flow. Undefined: none is registered, so the flow has no keys. */
  async find(flow: string): Promise<string | undefined> {
    const known = this.#known.get(flow);
    if (known !== undefined) return known;
    const found = await this.#database.registry.findOne({ prefix: this.#prefix, flow });
    if (found !== null) this.#known.set(flow, found._id);
    return found?._id;
  }

  /** All collections of this store's flows, as [flow, collection]. */
  async all(): Promise<[string, string][]> {
    const found = await this.#database.registry.find({ prefix: this.#prefix }).toArray();
    return found.map(({ flow, _id }) => [flow, _id]);
  }

  /**
   * Registers and creates the collection of a flow, if it has none. `wanted`: the name that the flow's document asks for.
   *
   * @throws ConfigurationError if the name is not possible, the collection belongs to another flow, or the flow has another one.
   */
  async claim(flow: string, wanted?: string): Promise<string> {
    const known = await this.find(flow);
    if (known !== undefined && (wanted === undefined || wanted === known)) return known;
    if (known !== undefined) throw moved(flow, known, wanted as string);
    const name = wanted ?? this.nameOf(flow);
    const why = this.whyNot(name);
    if (why !== undefined) throw impossible(flow, name, why);
    // Before the first transaction writes to it: creating a collection takes a lock that conflicts with transactions.
    await this.#database.create(name);
    try {
      await this.#database.registry.insertOne({ _id: name, prefix: this.#prefix, flow });
    } catch (error) {
      if (!isDuplicateKey(error)) throw error;
      // Another process has registered the flow, or another flow has the collection.
      const registered = await this.find(flow);
      if (registered !== undefined) return await this.claim(flow, wanted);
      const owner = await this.#database.registry.findOne({ _id: name });
      throw taken(flow, name, owner?.flow ?? "", owner?.prefix ?? "");
    }
    this.#known.set(flow, name);
    return name;
  }

  /** The default name. Stores with another prefix have it in the name: two of them in a database do not share keys. */
  nameOf(flow: string): string {
    return `${this.#prefix === plainPrefix ? "" : `${this.#prefix}.`}${flow}${suffix}`;
  }

  /** Why MongoDB does not accept the name of a collection, or the store does not. Undefined: the name is possible. */
  whyNot(name: string): string | undefined {
    if (name === "" || name.startsWith(".") || name.endsWith("."))
      return "the name of a collection neither is empty nor begins or ends with a dot";
    if (/[$\0]/.test(name)) return "the name of a collection has no $ and no NUL character";
    if (name.startsWith("system.")) return 'names that begin with "system." are reserved by MongoDB';
    const bytes = Buffer.byteLength(`${this.#database.name}.${name}`);
    if (bytes > namespaceBytesMax)
      return `database and collection have ${bytes} bytes together, and MongoDB allows ${namespaceBytesMax} for a collection that can be sharded`;
    if (name.startsWith(`${this.#prefix}_`) || name.startsWith(`${plainPrefix}_`))
      return `names that begin with "${this.#prefix}_" are the store's own`;
    return undefined;
  }
}

function impossible(flow: string, name: string, why: string): ConfigurationError {
  return new ConfigurationError(
    `[onceflow] [mongodb] the keys of flow ${quoted(flow)} cannot be stored in a collection ${quoted(name)}: ${why}; ` +
      "rename the flow, or name a collection in its document: x-runtime: { mongodb: { idempotencyKeys: name } }",
    { code: "INVALID_COLLECTION" },
  );
}

function taken(flow: string, name: string, owner: string, prefix: string): ConfigurationError {
  return new ConfigurationError(
    `[onceflow] [mongodb] the collection ${quoted(name)} holds the keys of flow ${quoted(owner)} of the store with prefix ${quoted(prefix)}, ` +
      `so flow ${quoted(flow)} cannot use it: name another one in its document: x-runtime: { mongodb: { idempotencyKeys: name } }`,
    { code: "INVALID_COLLECTION" },
  );
}

function moved(flow: string, known: string, wanted: string): ConfigurationError {
  return new ConfigurationError(
    `[onceflow] [mongodb] flow ${quoted(flow)} stores its keys in the collection ${quoted(known)}, but its document asks for ${quoted(wanted)}: ` +
      "write the former name into the document. (To move the keys: stop all processes, rename the collection, and change its name in " +
      "onceflow_key_collections)",
    { code: "INVALID_COLLECTION" },
  );
}

/** At most 100 characters, with control characters escaped. */
function quoted(text: string): string {
  return JSON.stringify(text.length > 100 ? `${text.slice(0, 100)}…` : text);
}
