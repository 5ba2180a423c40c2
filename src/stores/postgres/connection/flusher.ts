import type pg from "pg";
import { OnceflowError, StoreRefusedError, UnreachableError } from "../../../core/errors/errors.js";
import { setUpWrong } from "../../../core/store/server-answer.js";
import type { PgClient, PgModule } from "../driver.js";
import { explain, isFromServer, isMisconfigured } from "../errors.js";
import { beginSession, type ConnectionConfig, refusesStartUp, sessionOf, startUp } from "./session.js";

/** The connection for flushes, one at a time. After the connection broke, the next flush opens a new one. */
export class Flusher {
  readonly #pg: PgModule;
  #config: ConnectionConfig;
  #client: Promise<pg.Client> | undefined;

  constructor(pg: PgModule, config: ConnectionConfig) {
    this.#pg = pg;
    this.#config = config;
  }

  /** Opens the connection before it is needed. If that fails, the next flush reports it. */
  connect(): void {
    this.#connected().catch(() => {});
  }

  async run<T>(what: string, work: (client: PgClient) => Promise<T>): Promise<T> {
    const client = await this.#connected();
    try {
      return await work(sessionOf(client));
    } catch (error) {
      const meaning = explain(error, what);
      // Replace the connection after every error except refused data: its server may have become read-only, or may have lost a
      // prepared statement.
      if (meaning === error ? !(error instanceof OnceflowError) : !(meaning instanceof StoreRefusedError)) this.#drop(client);
      throw meaning;
    }
  }

  async close(): Promise<void> {
    const client = await this.#client?.catch(() => undefined);
    this.#client = undefined;
    await client?.end();
  }

  #connected(): Promise<pg.Client> {
    this.#client ??= this.#connect();
    return this.#client;
  }

  /** The current configuration: `pooled` is set once a pooler was detected. */
  get config(): ConnectionConfig {
    return this.#config;
  }

  async #connect(): Promise<pg.Client> {
    const client = new this.#pg.Client(startUp(this.#config));
    client.on("error", () => this.#drop(client));
    try {
      await client.connect();
      await beginSession(client, this.#config);
      if (sessionOf(client) !== client) this.#config = { ...this.#config, pooled: true };
      return client;
    } catch (error) {
      this.#client = undefined;
      void client.end().catch(() => {});
      if (refusesStartUp(error) && !this.#config.pooled) {
        this.#config = { ...this.#config, pooled: true };
        return await this.#connected();
      }
      const { host, port, database } = client;
      const why = error instanceof Error ? error.message : String(error);
      if (isFromServer(error) && isMisconfigured(error))
        throw setUpWrong({ store: "postgres", what: `connecting to ${host}:${port}/${database ?? ""}`, why, cause: error });
      throw new UnreachableError(`[onceflow] [postgres] cannot connect to ${host}:${port}/${database ?? ""}: ${why}`, error);
    }
  }

  /** Makes the next flush open a new connection. An error while a connection is opened is reported by `#connect`. */
  #drop(client: pg.Client): void {
    const forget = (current: pg.Client) => {
      if (current === client) this.#client = undefined;
    };
    this.#client?.then(forget, () => {});
    void client.end().catch(() => {});
  }
}
