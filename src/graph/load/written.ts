import type { Fields } from "../normalise/fields.js";
import type { Written } from "../normalise/model.js";

export function written(fields: Fields, name: string): Written | undefined {
  const text = fields.text(name);
  const spot = fields.at(name);
  return text === undefined || spot === undefined ? undefined : { text, spot };
}
