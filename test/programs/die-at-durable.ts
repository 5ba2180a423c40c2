import { type StatementWatcher, watchStatements } from "./watch-statements.js";

/** Kills the process at a durable write: the COMMIT of a transaction that may write, or a writing statement outside of a transaction. Counted from 1 when it is armed. */
export async function dieAtDurable(url: string, point: "before" | "after", nth = 1): Promise<{ arm(): void }> {
  let armed = false;
  let writing = false;
  let moments = 0;
  const isDurable = (sql: string) =>
    writing ? sql === "COMMIT" : /^(INSERT|UPDATE|DELETE|WITH .*(INSERT INTO|UPDATE|DELETE FROM) )/s.test(sql);
  const watcher: StatementWatcher = {
    before(sql) {
      if (/^BEGIN( IMMEDIATE| ISOLATION LEVEL READ COMMITTED$|[^;]*;)/.test(sql)) writing = true;
      if (!armed || !isDurable(sql)) return;
      moments += 1;
      if (point === "before" && moments === nth) process.kill(process.pid, "SIGKILL");
    },
    after(sql) {
      if (armed && point === "after" && moments === nth && isDurable(sql)) process.kill(process.pid, "SIGKILL");
      if (sql === "COMMIT" || sql === "ROLLBACK") writing = false;
    },
  };
  await watchStatements(url, watcher);
  return {
    arm() {
      armed = true;
    },
  };
}
