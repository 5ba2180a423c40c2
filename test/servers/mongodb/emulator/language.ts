import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { BSON } from "mongodb";
import type { Doc } from "./wire.js";

/** Filters, projections and pipelines, evaluated by the npm package mingo, which implements MongoDB's query language. */
export interface Language {
  /** The value of $$NOW, for a whole command. */
  instant: Date;
  select(docs: readonly Doc[], query: { filter: Doc; sort?: Doc; skip?: number; limit?: number }): Doc[];
  project(doc: Doc, projection: Doc | undefined): Doc;
  /** The document after an update, which is a pipeline, update operators, or a whole new document. */
  update(doc: Doc, update: Doc | readonly Doc[], inserting: boolean): Doc;
  aggregate(docs: readonly Doc[], pipeline: readonly Doc[]): Doc[];
}

type Operators = Record<string, unknown>;

/** The parts of mingo that are used, by file. */
interface Mingo {
  readonly query: {
    Query: new (
      filter: Doc,
      options: object,
    ) => {
      find(docs: Doc[], projection?: Doc): { sort(by: Doc): unknown; skip(n: number): unknown; limit(n: number): unknown; all(): Doc[] };
    };
  };
  readonly aggregator: { Aggregator: new (pipeline: readonly Doc[], options: object) => { run(docs: Doc[]): Doc[] } };
  readonly updater: { updateOne(docs: Doc[], filter: Doc, update: Doc): unknown };
  readonly core: { Context: { init(operators: Record<string, Operators>): object } };
}

/** The supported operators; all others are errors. The list is short because mingo copies its operators for every query. */
const known = {
  accumulator: ["$max", "$min", "$sum"],
  expression: [
    ..."$add $and $concatArrays $cond $eq $gt $gte $ifNull $literal $lt $max $min $ne $not $or $slice $toDate $toDouble $type".split(" "),
  ],
  pipeline: "$match $project $replaceWith $set $unset $group $sort".split(" "),
  query: "$and $eq $exists $expr $gt $gte $in $lt $lte $ne $or $regex $type".split(" "),
};

export async function loadLanguage(folder: string): Promise<Language> {
  const load = async <T>(file: string) => ((await import(pathToFileURL(join(folder, "cjs", `${file}.js`)).href)) as { default: T }).default;
  const pick = async (kind: keyof typeof known) => {
    const all = await load<Operators>(`operators/${kind}/index`);
    return Object.fromEntries(known[kind].map((name) => [name, all[name]]));
  };
  const mingo: Mingo = {
    query: await load("query"),
    aggregator: await load("aggregator"),
    updater: await load("updater"),
    core: await load("core/index"),
  };
  const operators = {
    accumulator: await pick("accumulator"),
    expression: await pick("expression"),
    pipeline: await pick("pipeline"),
    query: await pick("query"),
  };
  const options = { context: mingo.core.Context.init({ projection: {}, window: {}, ...operators }) };
  const find = (docs: readonly Doc[], filter: Doc, projection: Doc = {}) =>
    new mingo.query.Query(filter, options).find([...docs], projection);
  const aggregate = (docs: readonly Doc[], pipeline: readonly Doc[]) => new mingo.aggregator.Aggregator(pipeline, options).run([...docs]);
  const atNow = <T>(expression: T): T => withNow(expression, language.instant);

  const language: Language = {
    instant: new Date(),
    select(docs, { filter, sort, skip, limit }) {
      const cursor = find(docs, atNow(filter));
      if (sort !== undefined && Object.keys(sort).length > 0) cursor.sort(sort);
      if (skip) cursor.skip(skip);
      if (limit) cursor.limit(Math.abs(limit));
      return cursor.all();
    },
    project: (doc, projection) => (projection === undefined ? doc : (find([doc], {}, atNow(projection)).all()[0] as Doc)),
    update(doc, update, inserting) {
      const copy = copyOf(doc);
      if (Array.isArray(update)) return aggregate([copy], atNow(update as Doc[]))[0] as Doc;
      const { $setOnInsert, ...rest } = update as Doc & { $setOnInsert?: Doc };
      if (!Object.keys(update).some((name) => name.startsWith("$"))) return { _id: doc["_id"], ...update };
      const holder = [copy];
      const all = inserting && $setOnInsert ? { ...rest, $set: { ...$setOnInsert, ...(rest["$set"] as Doc) } } : rest;
      if (Object.keys(all).length > 0) mingo.updater.updateOne(holder, {}, all);
      return holder[0] as Doc;
    },
    aggregate: (docs, pipeline) => aggregate(docs, atNow(pipeline as Doc[])),
  };
  return language;
}

/** mingo reads the clock for every $$NOW; in MongoDB it is the same instant for the whole command. */
function withNow<T>(expression: T, now: Date): T {
  if (expression === "$$NOW") return now as T;
  if (Array.isArray(expression)) return expression.map((one) => withNow(one, now)) as T;
  if (typeof expression !== "object" || expression === null || Object.getPrototypeOf(expression) !== Object.prototype) return expression;
  if ("$literal" in expression) return expression;
  return Object.fromEntries(Object.entries(expression).map(([name, value]) => [name, withNow(value, now)])) as T;
}

function copyOf(doc: Doc): Doc {
  return BSON.deserialize(BSON.serialize(doc));
}
