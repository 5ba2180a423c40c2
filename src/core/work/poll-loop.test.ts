import { expect, test } from "vitest";
import { ManualClock } from "../../testing/contract/manual-clock.js";
import { PollLoop } from "./poll-loop.js";

function scene() {
  const clock = new ManualClock();
  const state = {
    polls: 0,
    idle: 0,
    closed: false,
    failures: [] as number[],
    error: undefined as unknown,
    hold: undefined as Promise<void> | undefined,
  };
  const loop = new PollLoop(clock, {
    poll: async () => {
      state.polls += 1;
      if (state.hold !== undefined) await state.hold;
      if (state.error !== undefined) throw state.error;
    },
    reportFailure: (_, failures) => void state.failures.push(failures),
    isClosed: () => state.closed,
    onIdle: () => {
      state.idle += 1;
    },
  });
  /** Makes polls last until the returned function is called. */
  const hold = () => {
    let end = (): void => {};
    state.hold = new Promise<void>((resolve) => {
      end = resolve;
    });
    return () => {
      state.hold = undefined;
      end();
    };
  };
  return { clock, state, loop, hold };
}

test("requests during a poll cause exactly one more poll", async () => {
  const { clock, state, loop, hold } = scene();
  const end = hold();
  loop.pollNow();
  loop.pollNow();
  loop.pollNow();
  expect([state.polls, loop.isBusy]).toEqual([1, true]);
  end();
  await clock.pass(0);
  expect([state.polls, state.idle, loop.isBusy]).toEqual([2, 1, false]);
});

test("a request at any moment around the end of a poll is served", async () => {
  for (let moment = 0; moment < 10; moment++) {
    const { clock, state, loop, hold } = scene();
    const end = hold();
    loop.pollNow();
    end();
    for (let i = 0; i < moment; i++) await undefined;
    loop.pollNow();
    await clock.pass(0);
    expect([moment, state.polls, loop.isBusy]).toEqual([moment, 2, false]);
  }
});

test("the earliest of several timers counts", async () => {
  const { clock, state, loop } = scene();
  loop.pollWithin(100);
  loop.pollWithin(50);
  loop.pollWithin(70);
  await clock.pass(49);
  expect(state.polls).toBe(0);
  await clock.pass(1);
  expect(state.polls).toBe(1);
  await clock.pass(1000);
  expect(state.polls).toBe(1);
});

test("a failed poll is retried after a backoff, which requests do not shorten; the loop is busy until it succeeds", async () => {
  const { clock, state, loop } = scene();
  state.error = new Error("away");
  loop.pollNow();
  await clock.pass(0);
  loop.pollNow();
  expect([state.polls, loop.isBusy, state.idle]).toEqual([1, true, 0]);
  await clock.pass(20);
  expect(state.polls).toBe(2);
  await clock.pass(39);
  expect(state.polls).toBe(2);
  state.error = undefined;
  await clock.pass(1);
  expect([state.polls, state.failures, state.idle, loop.isBusy]).toEqual([3, [1, 2], 1, false]);
  state.error = new Error("away again");
  loop.pollNow();
  await clock.pass(0);
  expect(state.failures).toEqual([1, 2, 1]);
});

test("a poll that fails because the store is closed is neither reported nor retried", async () => {
  const { clock, state, loop } = scene();
  [state.error, state.closed] = [new Error("closed"), true];
  loop.pollNow();
  await clock.pass(10_000);
  expect([state.polls, state.failures, loop.isBusy]).toEqual([1, [], false]);
});

test("stop waits for the current poll, but not for a retry", async () => {
  const { clock, state, loop, hold } = scene();
  const end = hold();
  loop.pollNow();
  loop.pollWithin(5);
  let stopped = false;
  const stopping = loop.stop().then(() => {
    stopped = true;
  });
  await clock.pass(10);
  expect(stopped).toBe(false);
  end();
  await stopping;
  loop.pollNow();
  await clock.pass(1000);
  expect(state.polls).toBe(1);

  const other = scene();
  other.state.error = new Error("away");
  other.loop.pollNow();
  await other.clock.pass(0);
  await other.loop.stop();
  await other.clock.pass(1000);
  expect([other.state.polls, other.state.idle, other.loop.isBusy]).toEqual([1, 1, false]);
});

test("a request that a poll makes before it waits for anything is polled for afterwards, not within the poll", async () => {
  let polls = 0;
  let running = 0;
  let most = 0;
  const loop: PollLoop = new PollLoop(new ManualClock(), {
    poll: async () => {
      polls += 1;
      running += 1;
      most = Math.max(most, running);
      if (polls < 5) loop.pollNow();
      await Promise.resolve();
      running -= 1;
    },
    reportFailure: () => {},
    isClosed: () => false,
  });
  loop.pollNow();
  await expect.poll(() => loop.isBusy).toBe(false);
  expect([polls, most]).toEqual([5, 1]);
});
