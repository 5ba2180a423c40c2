/** Runs one seed after the other and adds up their reports. */
export async function simulateSeeds<Totals extends Record<keyof Totals, number>>(
  seeds: number,
  simulateSeed: (seed: number) => Promise<Totals>,
): Promise<Totals> {
  const sum = await simulateSeed(1);
  for (let seed = 2; seed <= seeds; seed++) {
    const totals = await simulateSeed(seed);
    for (const name of Object.keys(sum) as (keyof Totals)[]) sum[name] = (sum[name] + totals[name]) as Totals[keyof Totals];
  }
  console.log(`${seeds} seeds: ${JSON.stringify(sum)}`);
  return sum;
}
