import { expect, test } from "vitest";
import { decodeEvents, encodeEvents } from "./codec.js";
import type { Event, EventType } from "./event.js";

const at = 1700000000000;

/** Every stored form that version 0.1.0 and later versions have written, with its event. */
const forms: readonly (readonly [stored: string, event: Event])[] = [
  [`["step","a#0",${at},1,"[1]"]`, { type: "step", id: "a#0", at, attempt: 1, fingerprint: "[1]", partial: false }],
  [`["step","a#0",${at},0,"x","partial"]`, { type: "step", id: "a#0", at, attempt: 0, fingerprint: "x", partial: true }],
  [`["mismatch","mismatch a:k#0",${at},"x"]`, { type: "mismatch", id: "mismatch a:k#0", at, fingerprint: "x" }],
  [`["done","a#0",${at},1,"7"]`, { type: "done", id: "a#0", at, attempt: 1, value: "7" }],
  [`["done","a#0",${at},1,"7","late"]`, { type: "done", id: "a#0", at, attempt: 1, value: "7", how: "late" }],
  [`["done","a#0",${at},1,"7","resolved","me"]`, { type: "done", id: "a#0", at, attempt: 1, value: "7", how: "resolved", by: "me" }],
  [`["fail","a#0",${at},1,"e",null]`, { type: "fail", id: "a#0", at, attempt: 1, error: "e", retryAt: null }],
  [`["fail","a#0",${at},1,"e",9,"timeout"]`, { type: "fail", id: "a#0", at, attempt: 1, error: "e", retryAt: 9, how: "timeout" }],
  [
    `["fail","a#0",${at},2,"e",null,"resolved","me"]`,
    { type: "fail", id: "a#0", at, attempt: 2, error: "e", retryAt: null, how: "resolved", by: "me" },
  ],
  [`["doubt","a#0",${at},1,"why"]`, { type: "doubt", id: "a#0", at, attempt: 1, why: "why" }],
  [`["sleep","sleep#0",${at},9]`, { type: "sleep", id: "sleep#0", at, until: 9 }],
  [`["woke","sleep#0",${at}]`, { type: "woke", id: "sleep#0", at }],
  [`["hook","hook#0",${at},"t"]`, { type: "hook", id: "hook#0", at, token: "t" }],
  [`["hook","hook#0",${at},"t","http://x"]`, { type: "hook", id: "hook#0", at, token: "t", url: "http://x" }],
  [`["hooked","hook#0",${at},true]`, { type: "hooked", id: "hook#0", at, conflict: true }],
  [`["hooked","hook#0",${at},true,"r"]`, { type: "hooked", id: "hook#0", at, conflict: true, run: "r" }],
  [`["got","hook#0",${at},"1"]`, { type: "got", id: "hook#0", at, payload: "1" }],
  [`["drop","hook#0",${at}]`, { type: "drop", id: "hook#0", at }],
  [`["child","child w#0",${at},"r","w"]`, { type: "child", id: "child w#0", at, run: "r", workflow: "w", check: false }],
  [`["child","child w#0",${at},"r","w","check"]`, { type: "child", id: "child w#0", at, run: "r", workflow: "w", check: true }],
  [`["started","child w#0",${at},"same"]`, { type: "started", id: "child w#0", at, found: "same" }],
  [`["await","child w#0",${at}]`, { type: "await", id: "child w#0", at }],
  [`["write","write s#0",${at},"value"]`, { type: "write", id: "write s#0", at, kind: "value" }],
  [
    `["attributes","attributes#0",${at},{"stage":"\\"paid\\"","n":null}]`,
    { type: "attributes", id: "attributes#0", at, set: { stage: '"paid"', n: null } },
  ],
  [`["attributes","attributes#0",${at},{"n":"1"},{}]`, { type: "attributes", id: "attributes#0", at, set: { n: "1" }, was: {} }],
  [`["ended","child w#0",${at},"completed",null]`, { type: "ended", id: "child w#0", at, status: "completed", output: null }],
  [`["aborted","a#0 abort 0",${at},"e"]`, { type: "aborted", id: "a#0 abort 0", at, reason: "e" }],
  [
    `["child","child w#0",${at},"r","w","","wait"]`,
    { type: "child", id: "child w#0", at, run: "r", workflow: "w", check: false, onCancel: "wait" },
  ],
  [`["stop","run",${at},"deadline",9]`, { type: "stop", id: "run", at, reason: "deadline", until: 9 }],
  [`["cancelled","sleep#0",${at},"e"]`, { type: "cancelled", id: "sleep#0", at, error: "e" }],
  [`["cancel","run",${at}]`, { type: "cancel", id: "run", at }],
  [`["cancel","run",${at},"cleanup"]`, { type: "cancel", id: "run", at, why: "cleanup" }],
  [`["metadata","hook#0",${at},"m"]`, { type: "metadata", id: "hook#0", at, metadata: "m" }],
  [`["pause","run",${at}]`, { type: "pause", at }],
  [`["resume","run",${at}]`, { type: "resume", at }],
  [`["retry","run",${at},["a#0"],["b#0"]]`, { type: "retry", at, cuts: ["a#0"], renewed: ["b#0"] }],
  [`["retry","run",${at},[],[],7]`, { type: "retry", at, cuts: [], renewed: [], mail: 7 }],
  [`["fork","r0",${at}]`, { type: "fork", run: "r0", at, sameKeys: false }],
  [`["fork","r0",${at},"same"]`, { type: "fork", run: "r0", at, sameKeys: true }],
  [`["accept","a#0",${at}]`, { type: "accept", id: "a#0", at }],
  [`["park","mail",${at},3]`, { type: "park", at, mail: 3 }],
  [`["unpark","mail",${at}]`, { type: "unpark", at }],
  [`["fence","w1",${at}]`, { type: "fence", owner: "w1", at }],
  [`["claim","w1",${at}]`, { type: "claim", owner: "w1", at }],
  [`["claim","w1",${at},0]`, { type: "claim", owner: "w1", at, crashes: 0 }],
  [`["cleared","run",${at}]`, { type: "cleared", at }],
  [`["end","failed",${at},"e"]`, { type: "end", status: "failed", at, output: "e" }],
];

test.each(forms)("%s is decoded and encoded as in all earlier versions", (stored, event) => {
  expect(decodeEvents(`[${stored}]`)).toEqual([event]);
  expect(encodeEvents([event])).toBe(`[${stored}]`);
  expect(encodeEvents(decodeEvents(`[${stored}]`))).toBe(`[${stored}]`);
});

test("the examples cover every type of event", () => {
  const types: Record<EventType, true> = {
    step: true,
    mismatch: true,
    done: true,
    fail: true,
    doubt: true,
    sleep: true,
    woke: true,
    hook: true,
    hooked: true,
    got: true,
    drop: true,
    child: true,
    started: true,
    await: true,
    write: true,
    attributes: true,
    ended: true,
    aborted: true,
    stop: true,
    cancelled: true,
    cancel: true,
    metadata: true,
    pause: true,
    resume: true,
    retry: true,
    fork: true,
    accept: true,
    park: true,
    unpark: true,
    fence: true,
    claim: true,
    cleared: true,
    end: true,
  };
  expect(new Set(forms.map(([, { type }]) => type))).toEqual(new Set(Object.keys(types)));
});

test("an event of a later version keeps its common fields", () => {
  expect(decodeEvents(`[["later","a#0",${at},1]]`)).toEqual([{ type: "later", id: "a#0", at }]);
});
