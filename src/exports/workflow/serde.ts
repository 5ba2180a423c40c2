export {
  /** Names the static method that makes an instance of what was stored. */
  deserializeSymbol as WORKFLOW_DESERIALIZE,
  /**
   * Names the static method that makes what is stored of an instance. With the transform such a class is registered by
   * itself; else by `serializable(name, Class)`.
   *
   * @example
   * class Money {
   *   constructor(readonly cents: number) {}
   *   static [WORKFLOW_SERIALIZE](money: Money) { return money.cents; }
   *   static [WORKFLOW_DESERIALIZE](cents: number) { return new Money(cents); }
   * }
   */
  serializeSymbol as WORKFLOW_SERIALIZE,
} from "../../core/values/serializable.js";
