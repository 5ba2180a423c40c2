import { expect, test } from "vitest";
import { ManualClock } from "../../testing/contract/manual-clock.js";
import { Lease, LeaseKeeper } from "./lease-keeper.js";
import { WorkerLease } from "./worker-lease.js";

class TestLease extends Lease {
  readonly #clock: ManualClock;
  readonly renewedAt: number[] = [];
  readonly events: string[] = [];
  error: unknown;
  isOurs = true;
  answer: Promise<void> | undefined;

  constructor(clock: ManualClock, leaseMs: number) {
    super(leaseMs, clock.now());
    this.#clock = clock;
  }

  async renew(): Promise<boolean> {
    this.renewedAt.push(this.#clock.now());
    if (this.answer !== undefined) await this.answer;
    if (this.error !== undefined) throw this.error;
    return this.isOurs;
  }

  onTaken(): void {
    this.events.push("taken");
  }

  onFailure(_: unknown, isExpired: boolean): void {
    this.events.push(isExpired ? "expired" : "failed");
  }
}

function scene(...leasesMs: readonly number[]) {
  const clock = new ManualClock();
  const keeper = new LeaseKeeper({ clock, background: true });
  const leases = leasesMs.map((leaseMs) => new TestLease(clock, leaseMs));
  for (const [i, lease] of leases.entries()) keeper.keep(String(i), lease);
  return { clock, keeper, leases };
}

test("each lease is renewed every third of its length until it is dropped", async () => {
  const { clock, keeper, leases } = scene(90, 300);
  await clock.pass(100);
  expect(leases.map(({ renewedAt }) => renewedAt)).toEqual([[30, 60, 90], [100]]);
  expect(keeper.drop("0")).toBe(true);
  expect(keeper.drop("0")).toBe(false);
  await clock.pass(100);
  expect(leases.map(({ renewedAt }) => renewedAt.length)).toEqual([3, 2]);
});

test("a failed renewal is retried after a backoff; a lease expires if it is not renewed for its whole length", async () => {
  const { clock, leases } = scene(300);
  const [lease] = leases as [TestLease];
  lease.error = new Error("away");
  await clock.pass(299);
  expect(lease.renewedAt).toEqual([100, 120, 160, 240]);
  expect(new Set(lease.events)).toEqual(new Set(["failed"]));
  await clock.pass(41);
  expect([lease.renewedAt.at(-1), lease.events.at(-1)]).toEqual([340, "expired"]);
  lease.error = undefined;
  await clock.pass(100);
  expect([lease.renewedAt.at(-1), lease.failures, lease.expiresAt]).toEqual([440, 0, 739]);
});

test("a lease that another owner has taken is reported, unless it was dropped during the renewal", async () => {
  for (const isDropped of [false, true]) {
    const { clock, keeper, leases } = scene(90);
    const [lease] = leases as [TestLease];
    let answer = (): void => {};
    lease.answer = new Promise((resolve) => {
      answer = resolve;
    });
    lease.isOurs = false;
    await clock.pass(30);
    if (isDropped) keeper.drop("0");
    answer();
    await clock.pass(0);
    expect(lease.events).toEqual(isDropped ? [] : ["taken"]);
  }
});

test("renewNow renews at once; during a renewal it causes another one", async () => {
  const { clock, keeper, leases } = scene(90);
  const [lease] = leases as [TestLease];
  let answer = (): void => {};
  lease.answer = new Promise((resolve) => {
    answer = resolve;
  });
  keeper.renewNow("0");
  keeper.renewNow("0");
  keeper.renewNow("0");
  expect(lease.renewedAt).toEqual([0]);
  answer();
  await clock.pass(0);
  await clock.pass(0);
  expect(lease.renewedAt).toEqual([0, 0]);
  await clock.pass(30);
  expect(lease.renewedAt).toEqual([0, 0, 30]);
});

test("after a stall, catchUp sends due renewals before the late timer does", async () => {
  const { clock, keeper, leases } = scene(90);
  const [lease] = leases as [TestLease];
  keeper.catchUp();
  expect(lease.renewedAt).toEqual([]);
  lease.renewAt = clock.now();
  keeper.keep("0", lease);
  keeper.catchUp();
  expect(lease.renewedAt).toEqual([0]);
});

test("the lease of a worker is renewed at the regular pace, even after failures and after it has expired", async () => {
  const clock = new ManualClock();
  const keeper = new LeaseKeeper({ clock, background: true });
  const seen: string[] = [];
  const renew = () => Promise.reject(new Error("away"));
  const onFailure = (_: unknown, isExpired: boolean) => void seen.push(`${clock.now()} ${isExpired}`);
  keeper.keep("worker", new WorkerLease(90, clock.now(), { renew, onFailure }));
  await clock.pass(120);
  expect(seen).toEqual(["30 false", "60 false", "90 true", "120 true"]);
  keeper.stop();
  await clock.pass(1000);
  expect(seen).toHaveLength(4);
});
