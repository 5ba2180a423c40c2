import { ConfigurationError } from "../../../core/errors/errors.js";
import type { Layout } from "../layout.js";
import { script } from "../scripts/script.js";
import type { RedisLink } from "./link.js";

/**
 * Calls every command that the store's scripts use, on a key that does not exist, and returns the commands that this user may not
 * run, and "keys" if the user may not access the key. It leaves no data behind: commands that remove come first, and if
 * one of them is refused, nothing is written.
 */
const trying = script(
  `
local key, missing = KEYS[1], {}
local function try(command, ...)
  local reply = redis.pcall(command, ...)
  local why = type(reply) == 'table' and reply.err
  if not why then return end
  if string.find(why, 'access', 1, true) and string.find(why, 'key', 1, true) then missing[#missing + 1] = 'keys'
  elseif string.find(why, 'run this command', 1, true) or string.find(why, 'NOPERM', 1, true) then missing[#missing + 1] = command end
end
try('TIME')
try('EXISTS', key)
try('GET', key)
try('HMGET', key, 'o')
try('ZCOUNT', key, '-inf', '+inf')
try('ZRANGEBYSCORE', key, '-inf', '+inf')
try('ZRANGEBYLEX', key, '-', '+')
try('LRANGE', key, 0, -1)
try('HDEL', key, 'o')
try('ZREM', key, 'o')
try('ZREMRANGEBYRANK', key, 0, -1)
try('LTRIM', key, 1, 0)
try('DEL', key)
try('UNLINK', key)
if #missing == 0 then
  try('SET', key, '1')
  redis.pcall('DEL', key)
  try('HSET', key, 'o', '1')
  redis.pcall('DEL', key)
  try('ZADD', key, 0, 'o')
  redis.pcall('DEL', key)
  try('RPUSH', key, 'o')
  redis.pcall('DEL', key)
end
return missing`,
  1,
);

interface PermissionOptions {
  /** Whether writes use WAIT. */
  readonly waits: boolean;
}

/**
 * Throws ConfigurationError if the user lacks a permission. Without this check a script would fail in the middle, at the first key
 * that needs it.
 */
export async function checkPermissions(link: RedisLink, layout: Layout, { waits }: PermissionOptions): Promise<void> {
  const missing = new Set<string>();
  const permitted = async (command: readonly string[], key: string): Promise<unknown> => {
    try {
      return await link.send(command, key);
    } catch (error) {
      if (error instanceof Error && error.message.startsWith("NOPERM"))
        missing.add(/key/.test(error.message) ? "keys" : String(command[0]));
      // NOSCRIPT means that the command itself is permitted.
      else if (!(error instanceof Error && error.message.startsWith("NOSCRIPT"))) throw error;
      return [];
    }
  };
  await permitted(["GET", layout.version], layout.version);
  // On a Cluster every master has its own users, so each shard is checked.
  const heads = link.cluster ? layout.heads : layout.heads.slice(0, 1);
  await Promise.all(
    heads.map(async (head) => {
      const key = `${head}permissions`;
      const refused = await permitted(["EVAL", trying.text, "1", key], key);
      await permitted(["EVALSHA", trying.sha, "1", key], key);
      for (const command of refused as string[]) missing.add(command);
    }),
  );
  if (waits) await permitted(["WAIT", "0", "1"], layout.version);
  if (missing.size > 0) throw refusal(missing, layout.prefix);
}

function refusal(missing: ReadonlySet<string>, prefix: string): ConfigurationError {
  const commands = [...missing].filter((name) => name !== "keys").sort();
  const problems = [
    ...(commands.length === 0
      ? []
      : [`may not run ${commands.join(", ")} (ACL SETUSER … ${commands.map((name) => `+${name.toLowerCase()}`).join(" ")})`]),
    ...(missing.has("keys") ? [`may not read and write the keys ${prefix}:* (ACL SETUSER … ~${prefix}:*)`] : []),
  ];
  return new ConfigurationError(`[onceflow] [redis] this user ${problems.join(", and ")}; the store needs these permissions`, {
    code: "REDIS_PERMISSION",
  });
}
