/** Words that Go programmers write in capitals. */
const capitals = new Set(["api", "html", "http", "https", "id", "ip", "json", "sku", "sms", "sql", "uri", "url", "uuid", "xml"]);

/** `order_id` → `OrderID`. Letters outside of ASCII separate words; a name without a letter in front gets `prefix`. */
export function goName(name: string, prefix: string): string {
  const words = name
    .replace(/([a-z0-9])([A-Z])/g, "$1 $2")
    .split(/[^A-Za-z0-9]+/)
    .filter((word) => word !== "")
    .map((word) => (capitals.has(word.toLowerCase()) ? word.toUpperCase() : word.charAt(0).toUpperCase() + word.slice(1)));
  const joined = words.join("");
  return /^[A-Z]/.test(joined) ? joined : `${prefix}${joined}`;
}
