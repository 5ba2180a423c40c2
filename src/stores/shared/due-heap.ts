interface Waiting {
  readonly at: number;
  readonly no: number;
}

/** Min-heap of packets by the time when they are due. Stale entries are not removed; the caller recognizes them when they reach the top. */
export class DueHeap {
  readonly #heap: Waiting[] = [];

  push(at: number, no: number): void {
    const heap = this.#heap;
    let i = heap.length;
    const waiting = { at, no };
    heap.push(waiting);
    while (i > 0) {
      const parent = (i - 1) >> 1;
      if (!before(waiting, heap[parent] as Waiting)) break;
      heap[i] = heap[parent] as Waiting;
      i = parent;
    }
    heap[i] = waiting;
  }

  peek(): Waiting | undefined {
    return this.#heap[0];
  }

  pop(): void {
    const heap = this.#heap;
    const last = heap.pop();
    if (last === undefined || heap.length === 0) return;
    let i = 0;
    for (;;) {
      let child = 2 * i + 1;
      if (child >= heap.length) break;
      if (child + 1 < heap.length && before(heap[child + 1] as Waiting, heap[child] as Waiting)) child += 1;
      if (!before(heap[child] as Waiting, last)) break;
      heap[i] = heap[child] as Waiting;
      i = child;
    }
    heap[i] = last;
  }
}

function before(a: Waiting, b: Waiting): boolean {
  return a.at < b.at || (a.at === b.at && a.no < b.no);
}
