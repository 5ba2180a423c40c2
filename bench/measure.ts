/** An operation that is measured repeatedly and compared with others. */
export interface Contender {
  readonly name: string;
  readonly work: () => Promise<unknown>;
  /** A counter, such as the number of durable flushes. It is reported per operation. */
  readonly count?: () => number;
}

/** The figures of one contender in one round. */
export interface Sample {
  readonly operations: number;
  readonly perSecond: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  readonly countPerOperation?: number;
}

export interface Load {
  /** Concurrent loops in this process, each of which waits for its own answer. */
  readonly callers: number;
  readonly forMs: number;
}

export async function measure({ work, count }: Contender, { callers, forMs }: Load): Promise<Sample> {
  const latenciesMs: number[] = [];
  const countBefore = count?.();
  const startedAt = performance.now();
  const until = startedAt + forMs;
  const caller = async () => {
    for (let at = performance.now(); at < until; ) {
      await work();
      const answeredAt = performance.now();
      latenciesMs.push(answeredAt - at);
      at = answeredAt;
    }
  };
  await Promise.all(Array.from({ length: callers }, caller));
  const tookMs = performance.now() - startedAt;
  const operations = latenciesMs.length;
  latenciesMs.sort((a, b) => a - b);
  return {
    operations,
    perSecond: (operations / tookMs) * 1000,
    p50Ms: percentile(latenciesMs, 0.5),
    p99Ms: percentile(latenciesMs, 0.99),
    ...(count === undefined || countBefore === undefined ? {} : { countPerOperation: (count() - countBefore) / operations }),
  };
}

export interface RoundsOptions extends Load {
  readonly rounds: number;
  readonly warmUpMs: number;
  readonly onRound?: () => void;
}

/**
 * Measures all contenders in every round, and begins each round with another one, so that other load on the machine and the
 * state of the disk cache affect all of them alike. Sample i of one contender is comparable with sample i of another.
 */
export async function inRounds(contenders: readonly Contender[], options: RoundsOptions): Promise<Map<string, Sample[]>> {
  const { callers, forMs, rounds, warmUpMs, onRound } = options;
  const samples = new Map<string, Sample[]>(contenders.map(({ name }) => [name, []]));
  for (const contender of contenders) await measure(contender, { callers, forMs: warmUpMs });
  for (let round = 0; round < rounds; round++) {
    const first = round % contenders.length;
    for (const contender of [...contenders.slice(first), ...contenders.slice(0, first)]) {
      samples.get(contender.name)?.push(await measure(contender, { callers, forMs }));
      onRound?.();
    }
  }
  return samples;
}

/** The median of each figure, independently of the others. */
export function medianSample(samples: readonly Sample[]): Sample {
  const of = (figure: (sample: Sample) => number) => median(samples.map(figure));
  const counted = samples.flatMap(({ countPerOperation }) => (countPerOperation === undefined ? [] : [countPerOperation]));
  return {
    operations: of((s) => s.operations),
    perSecond: of((s) => s.perSecond),
    p50Ms: of((s) => s.p50Ms),
    p99Ms: of((s) => s.p99Ms),
    ...(counted.length === 0 ? {} : { countPerOperation: median(counted) }),
  };
}

export interface Ratio {
  readonly median: number;
  readonly min: number;
  readonly max: number;
}

/** Ours divided by theirs, round by round: on a shared machine only figures from the same seconds are comparable. */
export function ratioOf<S>(ours: readonly S[], theirs: readonly S[], figure: (sample: S) => number): Ratio {
  const ratios = ours.flatMap((sample, i) => {
    const other = theirs[i];
    return other === undefined ? [] : [figure(sample) / figure(other)];
  });
  return { median: median(ratios), min: Math.min(...ratios), max: Math.max(...ratios) };
}

export function median(values: readonly number[]): number {
  return percentile(
    [...values].sort((a, b) => a - b),
    0.5,
  );
}

/** The percentile of sorted values by nearest rank, so that it is a measured value. */
export function percentile(sorted: ArrayLike<number>, fraction: number): number {
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * fraction))] ?? Number.NaN;
}
