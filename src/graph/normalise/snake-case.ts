/** `Order Fulfilment` → `order_fulfilment` */
export function snakeCase(title: string): string {
  const words = title
    .replace(/([a-z0-9])([A-Z])/g, "$1 $2")
    .toLowerCase()
    .split(/[^a-z0-9]+/)
    .filter((word) => word !== "");
  return words.length === 0 ? "flow" : words.join("_");
}
