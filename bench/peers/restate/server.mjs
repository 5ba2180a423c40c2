import { spawn } from "node:child_process";
import { once } from "node:events";
import { createWriteStream } from "node:fs";
import { createRequire } from "node:module";
import { createServer } from "node:net";
import { join } from "node:path";

/** The server from its npm package, with its defaults except for addresses and the number of partitions. */
export async function startServer({ folder, partitions }) {
  const [ingress, admin, node] = [await freePort(), await freePort(), await freePort()];
  const name = `@restatedev/restate-server-${process.platform}-${process.arch}/bin/restate-server`;
  const server = spawn(
    createRequire(import.meta.url).resolve(name),
    ["--base-dir", join(folder, "restate"), "--node-name", "bench", "--no-logo"],
    {
      stdio: ["ignore", "pipe", "pipe"],
      env: {
        ...process.env,
        RESTATE_DEFAULT_NUM_PARTITIONS: String(partitions),
        RESTATE_LISTEN_MODE: "tcp",
        RESTATE_BIND_ADDRESS: `127.0.0.1:${node}`,
        RESTATE_ADVERTISED_ADDRESS: `http://127.0.0.1:${node}/`,
        RESTATE_INGRESS__BIND_ADDRESS: `127.0.0.1:${ingress}`,
        RESTATE_ADMIN__BIND_ADDRESS: `127.0.0.1:${admin}`,
        RESTATE_DISABLE_TELEMETRY: "true",
        DO_NOT_TRACK: "1",
      },
    },
  );
  const log = createWriteStream(join(folder, "restate.log"));
  server.stdout.pipe(log, { end: false });
  server.stderr.pipe(log, { end: false });
  const ended = once(server, "exit");
  const kill = () => server.kill("SIGKILL");
  process.once("exit", kill);
  return {
    pid: server.pid,
    ingress: `http://127.0.0.1:${ingress}`,
    admin: `http://127.0.0.1:${admin}`,
    async stop() {
      kill();
      await ended;
    },
  };
}

async function freePort() {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address();
  server.close();
  await once(server, "close");
  return port;
}
