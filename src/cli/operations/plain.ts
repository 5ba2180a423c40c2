/** What the value is in an answer of the HTTP API: times as texts, nothing undefined. A bigint, which JSON has not, becomes a text. */
export function plain(value: unknown): unknown {
  const text = JSON.stringify(value, (_name, member: unknown) => (typeof member === "bigint" ? `${member}n` : member)) as
    | string
    | undefined;
  return text === undefined ? undefined : JSON.parse(text);
}
