import { Agent, request } from "node:http";

/** A client with little overhead, because it shares the process with the measured server. */
export class Client {
  readonly #agent = new Agent({ keepAlive: true });

  post(url: string, key: string, body: string): Promise<number> {
    return new Promise((resolve, reject) => {
      const headers = { "content-type": "application/json", "content-length": Buffer.byteLength(body), "idempotency-key": key };
      const sent = request(url, { method: "POST", agent: this.#agent, headers }, (response) => {
        response.resume().on("end", () => resolve(response.statusCode ?? 0));
      });
      sent.on("error", reject);
      sent.end(body);
    });
  }

  close(): void {
    this.#agent.destroy();
  }
}
