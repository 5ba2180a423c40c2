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
 * The mock cluster of librdkafka, which kcat carries: brokers of the real protocol, with groups, in the memory of one process.
 * It cannot be started again with what it had. ONCEFLOW_TEST_KAFKA_BROKERS points the same suites at a real cluster.
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

/** A cluster that somebody else runs: the tests may use it. */
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

/** kcat is a consumer that never gets anything; what it consumes from is the mock cluster. It picks its port, and says it in its log. */
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
    const said = () => readFile(log, "utf8");
    const url = await poll(
      START_BOUND_MS,
      async () => {
        if (hasEnded(server)) throw new Error(`kcat ended as soon as it was started: ${excerpt(await said())}`);
        const address = /bootstrap\.servers=(127\.0\.0\.1:\d+)/.exec(await said())?.[1];
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
