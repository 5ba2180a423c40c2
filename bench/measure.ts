/** One thing that is measured against others: an operation, called again and again. */
export interface Contender {
  readonly name: string;
  readonly work: () => Promise<unknown>;
  /** A count that grows with use, such as durable flushes: reported per operation. */
  readonly count?: () => number;
}

/** What one contender did in one round. */
export interface Sample {
  readonly operations: number;
  readonly perSecond: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  readonly countPerOperation?: number;
}

export interface Load {
  /** Loops in this process that call at the same time, each waiting for its own answer. */
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
 * All contenders in every round, and each round begins with another one: what the machine does meanwhile, and what the
 * disk has cached, falls on all of them alike. Sample i of one contender compares with sample i of another.
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

/** The median of every figure by itself. */
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

/** Ours divided by theirs, round by round: on a shared machine only what ran within the same seconds compares. */
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

/** Of values that are sorted already; the nearest rank, so that it is a value that was measured. */
export function percentile(sorted: ArrayLike<number>, fraction: number): number {
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * fraction))] ?? Number.NaN;
}
