/** Words that cannot be names in Python, and `match`, `case`, `type` and `_`, which are special in some places. */
const keywords = new Set(
  `False None True and as assert async await break case class continue def del elif else except finally for from global if import in is
  lambda match nonlocal not or pass raise return try type while with yield _`.split(/\s+/),
);

/** Names that the annotations of a class use: a field with such a name would hide them. */
const usedInAnnotations = new Set(["typing", "flowdsl", "str", "int", "float", "bool"]);

const isIdentifier = (name: string): boolean => /^[A-Za-z_][A-Za-z0-9_]*$/.test(name) && !keywords.has(name);

/** Whether a member can be written as a field of a class. Python changes names within a class that begin with two underscores. */
export const isPlainField = (name: string): boolean => isIdentifier(name) && !name.startsWith("__") && !usedInAnnotations.has(name);

/** A text as a Python literal. JSON escapes what Python would not accept: line ends, quotes, control characters, halves of pairs. */
export const text = (value: string): string => JSON.stringify(value);

/** Comment lines. A control character could end a comment, or is refused in Python source. */
export function comment(about: string | undefined, indent = ""): string {
  if (about === undefined || about.trim() === "") return "";
  const lines = about.trim().split(/\r\n|\r|\n/);
  return lines
    .map((line) => `${indent}# ${oneLine(line)}`.trimEnd())
    .join("\n")
    .concat("\n");
}

export const oneLine = (about: string): string => about.replace(/[\s\p{Cc}\p{Cs}\u2028\u2029]+/gu, " ");

/** A flow's id as the name of a Python module: characters other than ASCII letters, digits and `_` are written as their code. */
export const moduleName = (flowId: string): string =>
  flowId.replace(/^$|^[0-9]|[^A-Za-z0-9_]/gu, (sign) => `_x${(sign.codePointAt(0) ?? 0).toString(16)}`);

/** An operationId as the name of a function. A name with two leading underscores may mean something to Python, such as `__name__`. */
export function functionName(operationId: string, taken: ReadonlySet<string>): string {
  const plain = operationId.replace(/[^A-Za-z0-9_]/gu, "_");
  const name = /^(?:__|[0-9]|$)/.test(plain) ? `node_${plain}` : plain;
  let free = keywords.has(name) ? `${name}_` : name;
  while (taken.has(free)) free = `${free}_`;
  return free;
}
