export {
  /** Symbol of the static method that creates an instance from its stored value. See `WORKFLOW_SERIALIZE`. */
  deserializeSymbol as WORKFLOW_DESERIALIZE,
  /**
   * Symbol of the static method that returns the value to store for an instance. The transform registers classes that have
   * both methods automatically; without the transform call `serializable(name, Class)`.
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
