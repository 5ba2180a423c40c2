import { closest } from "../../core/errors/closest.js";
import { type Findings, placeOf } from "../findings/finding.js";
import { childOf, entriesOf, itemsOf, plainOf, type Spot } from "../load/tree.js";

const kindOf = ({ tree }: Spot): string =>
  tree.kind === "scalar" ? (tree.value === null ? "nothing" : `a ${typeof tree.value}`) : tree.kind === "map" ? "a map" : "a list";

/** Extensions that the runtime reads: a name that is nearly one of these is a typo. All other `x-` fields belong to other tools. */
const ownExtensions: readonly string[] = ["x-runtime", "x-alerts"];

/**
 * The fields of a map, read by name and type. `done` reports fields that were never read as unknown: the code that reads the
 * fields is the only list of fields.
 */
export class Fields {
  readonly #read = new Set<string>();

  private constructor(
    readonly spot: Spot,
    private readonly findings: Findings,
  ) {}

  static of(spot: Spot | undefined, findings: Findings): Fields | undefined {
    if (spot === undefined) return undefined;
    if (spot.tree.kind === "map") return new Fields(spot, findings);
    findings.add("FLOW_BAD_TYPE", spot, `must be a map, not ${kindOf(spot)}`, "use `name: value` lines");
    return undefined;
  }

  /** The spot of a field. A field with the value null counts as absent. */
  at(name: string): Spot | undefined {
    this.#read.add(name);
    const spot = childOf(this.spot, name);
    return spot?.tree.kind === "scalar" && spot.tree.value === null ? undefined : spot;
  }

  has(name: string): boolean {
    return childOf(this.spot, name) !== undefined;
  }

  fields(name: string): Fields | undefined {
    return Fields.of(this.at(name), this.findings);
  }

  text(name: string): string | undefined {
    const spot = this.at(name);
    if (spot === undefined) return undefined;
    if (spot.tree.kind === "scalar" && typeof spot.tree.value === "string") return spot.tree.value;
    this.#wrong(spot, "a string", spot.tree.kind === "scalar" ? "put it in quotes" : "use a string");
    return undefined;
  }

  required(name: string): string | undefined {
    if (this.at(name) !== undefined) return this.text(name);
    this.missing(name);
    return undefined;
  }

  missing(name: string, fix = `add \`${name}:\``): void {
    this.findings.add("FLOW_MISSING_FIELD", this.spot, `"${name}" is missing`, fix);
  }

  flag(name: string): boolean | undefined {
    const spot = this.at(name);
    if (spot === undefined) return undefined;
    if (spot.tree.kind === "scalar" && typeof spot.tree.value === "boolean") return spot.tree.value;
    this.#wrong(spot, "true or false", "use true or false");
    return undefined;
  }

  integer(name: string, min: number, max: number): number | undefined {
    const spot = this.at(name);
    if (spot === undefined) return undefined;
    const value = spot.tree.kind === "scalar" ? spot.tree.value : undefined;
    if (typeof value !== "number" || !Number.isInteger(value)) {
      this.#wrong(spot, "an integer", "use an integer without quotes");
      return undefined;
    }
    if (value >= min && value <= max) return value;
    this.findings.add("FLOW_BAD_VALUE", spot, `${value} is not between ${min} and ${max}`, "choose a number in that range");
    return undefined;
  }

  oneOf<const T extends string>(name: string, allowed: readonly T[]): T | undefined {
    const text = this.text(name);
    const spot = this.at(name);
    if (text === undefined || spot === undefined) return undefined;
    if ((allowed as readonly string[]).includes(text)) return text as T;
    const near = closest(text, allowed);
    this.findings.add(
      "FLOW_BAD_VALUE",
      spot,
      `"${text}" is not allowed; allowed values: ${allowed.join(", ")}`,
      near === undefined ? "choose one of them" : `did you mean "${near}"?`,
    );
    return undefined;
  }

  items(name: string): readonly Spot[] {
    const spot = this.at(name);
    if (spot === undefined) return [];
    if (spot.tree.kind !== "list") this.#wrong(spot, "a list", "use `- item` lines");
    return itemsOf(spot);
  }

  texts(name: string): readonly string[] {
    return this.items(name).flatMap((spot) => {
      if (spot.tree.kind === "scalar" && typeof spot.tree.value === "string") return [spot.tree.value];
      this.#wrong(spot, "a string", "put it in quotes");
      return [];
    });
  }

  plain(name: string): unknown {
    const spot = this.at(name);
    return spot && plainOf(spot.tree);
  }

  /** All `x-` fields, which are passed on without interpretation. */
  extensions(): Readonly<Record<string, unknown>> {
    const own = entriesOf(this.spot).filter(({ name }) => name.startsWith("x-"));
    for (const { name } of own) this.#read.add(name);
    return Object.fromEntries(own.map(({ name, tree }) => [name, plainOf(tree)]));
  }

  done(): void {
    for (const { name, keyOffset, tree, pointer } of entriesOf(this.spot)) {
      const isExtension = name.startsWith("x-");
      if (isExtension ? closest(name, ownExtensions) === undefined || ownExtensions.includes(name) : this.#read.has(name)) continue;
      this.findings.add(
        "FLOW_UNKNOWN_FIELD",
        placeOf({ tree: { ...tree, source: this.spot.tree.source }, pointer }, keyOffset),
        `unknown field "${name}"`,
        () => this.#insteadOf(name),
      );
    }
  }

  #insteadOf(name: string): string {
    if (name === "<<")
      return "a merge key is written in YAML, without quotes; elsewhere repeat the fields, or refer to a component with $ref";
    const near = closest(
      name,
      [...ownExtensions, ...this.#read].filter((known) => known !== name),
    );
    return near === undefined ? "remove it, or prefix its name with x-" : `did you mean "${near}"?`;
  }

  #wrong(spot: Spot, wanted: string, fix: string): void {
    this.findings.add("FLOW_BAD_TYPE", spot, `must be ${wanted}, not ${kindOf(spot)}`, fix);
  }
}
