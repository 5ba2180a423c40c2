import type { Reply } from "./reply.js";

type Headers = Reply["headers"];

/** Of these the values of earlier middleware and of the handler are both sent. Any other header of the handler replaces the earlier one. */
const additive = new Set(["set-cookie", "link", "vary"]);

/** The handler's own headers: those that are on the response `now`, without those that earlier middleware had set `before`. */
export function ownHeaders(now: Headers, before: Headers): Headers {
  const earlier = split(before).map(idOf);
  return joinVary(
    split(now).filter((header) => {
      const at = earlier.indexOf(idOf(header));
      if (at !== -1) earlier.splice(at, 1);
      return at === -1;
    }),
  );
}

/** A stored response or a refusal, with the headers that this request's earlier middleware has set. */
export function withEarlier(reply: Reply, before: Headers): Reply {
  const named = new Set(reply.headers.map(([name]) => name.toLowerCase()));
  const stays = split(before).filter(([name]) => additive.has(name) || !named.has(name));
  const known = new Set(stays.map(idOf));
  const own = split(reply.headers).filter((header) => !known.has(idOf(header)));
  return { ...reply, headers: joinVary([...stays, ...own]) };
}

function idOf([name, value]: Headers[number]): string {
  return `${name}: ${name === "vary" ? value.toLowerCase() : value}`;
}

/** Names in lower case, and `vary` with one name in each value. */
function split(headers: Headers): [string, string][] {
  return headers.flatMap(([given, value]): [string, string][] => {
    const name = given.toLowerCase();
    if (name !== "vary") return [[name, value]];
    return value
      .split(",")
      .map((one) => one.trim())
      .filter((one) => one !== "")
      .map((one) => [name, one]);
  });
}

function joinVary(headers: Headers): Headers {
  const varies = headers.flatMap(([name, value]) => (name === "vary" ? [value] : []));
  if (varies.length < 2) return headers;
  return [...headers.filter(([name]) => name !== "vary"), ["vary", varies.join(", ")]];
}
