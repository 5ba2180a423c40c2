import { readFile } from "node:fs/promises";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { poll } from "../../kit/poll.js";
import { excerpt, START_BOUND_MS } from "../process/command.js";
import { startGuard } from "../process/guard.js";
import { hasEnded, launchServer } from "../process/launch.js";
import { killProgram } from "../process/program-server.js";
import type { Found, Provider, Server } from "../provider.js";
import { installDebianPackage } from "../sources/debian.js";
import { programOnPath } from "../sources/on-path.js";

/**
 * The mock cluster of librdkafka, which is part of kcat: brokers that speak the real protocol, with consumer groups, in the memory
 * of one process. It loses its data when it ends, so it cannot be restarted. ONCEFLOW_TEST_KAFKA_BROKERS names a real cluster.
 */
export const kafka: Provider<Server> = {
  title: "Kafka (mock cluster)",
  env: { given: "ONCEFLOW_TEST_KAFKA_BROKERS", from: "ONCEFLOW_TEST_KAFKA_FROM" },
  given: clusterAt,
  sources: [
    { name: "machine", seek: onThisMachine },
    { name: "debian", seek: fromDebian },
  ],
  start,
};

/** A cluster that was given by its address: the tests may use it. */
async function clusterAt(brokers: string): Promise<Server> {
  if (!(await answers(brokers))) throw new Error("it does not answer");
  return { from: "ONCEFLOW_TEST_KAFKA_BROKERS", url: brokers, stop: async () => {} };
}

async function onThisMachine(): Promise<Found> {
  return { from: "kcat of this machine", path: programOnPath("kcat") };
}

async function fromDebian(): Promise<Found> {
  await installDebianPackage("kcat");
  return { ...(await onThisMachine()), from: "the Debian package kcat" };
}

/** kcat runs as a consumer that gets no messages, and carries the mock cluster. The cluster picks its port and prints it into the log. */
async function start({ from, path }: Found): Promise<Server> {
  const guard = await startGuard(join(tmpdir(), "onceflow-kafka-"), "SIGKILL");
  const log = join(guard.folder, "server.log");
  const args = ["-C", "-E", "-b", "127.0.0.1:1", "-X", "test.mock.num.brokers=1", "-t", "nothing", "-d", "mock"];
  const server = launchServer({ command: path, args, cwd: guard.folder, log, guard });
  const stop = async () => {
    await killProgram(server, kafka.title);
    await guard.release();
  };
  try {
    const readLog = () => readFile(log, "utf8");
    const url = await poll(
      START_BOUND_MS,
      async () => {
        if (hasEnded(server)) throw new Error(`kcat ended as soon as it was started: ${excerpt(await readLog())}`);
        const address = /bootstrap\.servers=(127\.0\.0\.1:\d+)/.exec(await readLog())?.[1];
        return address !== undefined && (await answers(address)) ? address : undefined;
      },
      () => `the mock cluster did not answer within ${START_BOUND_MS} ms`,
    );
    return { from, url, folder: guard.folder, pid: server.pid, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

function answers(brokers: string): Promise<boolean> {
  const [host, port] = (brokers.split(",")[0] ?? "").split(":");
  return new Promise((resolve) => {
    const socket = connect({ host: host ?? "", port: Number(port ?? 9092) }, () => {
      socket.destroy();
      resolve(true);
    });
    socket.on("error", () => resolve(false));
  });
}
