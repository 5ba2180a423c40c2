import { createClient } from "redis";
import type { Contender } from "../measure.js";
import { freshKeys, outcome, settledCount, settledKeys, times } from "./ours.js";
import { names } from "./subject.js";

const owner = "floor:1";

/** Begin: writes only if the key does not exist, and otherwise returns the record. Settle: by the owner only. */
const scripts = {
  begin: `if redis.call('EXISTS', KEYS[1]) == 1 then return redis.call('HGETALL', KEYS[1]) end
redis.call('HSET', KEYS[1], 'state', 'running', 'owner', ARGV[1]) return 1`,
  settle: `if redis.call('HGET', KEYS[1], 'owner') ~= ARGV[1] then return 0 end
redis.call('HSET', KEYS[1], 'state', 'completed', 'outcome', ARGV[2]) return 1`,
};

/** The requests of a minimal correct implementation: one script to begin, one to settle. The driver pipelines concurrent requests. */
export class RedisFloor {
  readonly #client;
  readonly #keys = freshKeys("floor");
  #begin = "";
  #settle = "";

  constructor(url: string) {
    this.#client = createClient({ url });
  }

  async open(): Promise<void> {
    await this.#client.connect();
    [this.#begin, this.#settle] = await Promise.all([this.#client.scriptLoad(scripts.begin), this.#client.scriptLoad(scripts.settle)]);
  }

  bare(): Contender {
    return { name: names.bare, work: () => this.#execute(this.#keys()) };
  }

  async read(): Promise<Contender> {
    const fill = settledKeys();
    await times(settledCount, 32, () => this.#execute(fill()));
    const next = settledKeys();
    return { name: names.read, work: () => this.#client.sendCommand(["HGETALL", next()]) };
  }

  close(): void {
    this.#client.destroy();
  }

  async #execute(key: string): Promise<void> {
    await this.#client.sendCommand(["EVALSHA", this.#begin, "1", key, owner]);
    await this.#client.sendCommand(["EVALSHA", this.#settle, "1", key, owner, outcome]);
  }
}
