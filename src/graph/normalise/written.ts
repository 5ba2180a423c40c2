import type { Fields } from "./fields.js";
import type { Written } from "./model.js";

export function written(fields: Fields, name: string): Written | undefined {
  const text = fields.text(name);
  const spot = fields.at(name);
  return text === undefined || spot === undefined ? undefined : { text, spot };
}
