import type { Reply } from "./reply.js";

type Headers = Reply["headers"];

/** For these headers the values of earlier middleware and of the handler are both sent. Otherwise the handler's value replaces the earlier one. */
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

/** Adds the headers that earlier middleware has set for this request to a stored response or a problem. */
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

/** Lower-cases names and splits `vary` into one entry per value. */
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
