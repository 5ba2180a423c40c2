import type { ContractGroup, ContractTarget } from "onceflow/testing";

/** How long a case may take here; one that does not come to its end has failed, too. */
const caseMsMax = 5000;

/** The first promise of a verb that a faithful store keeps, and a sabotaged one does not. */
export async function firstBroken(
  contract: readonly ContractGroup[],
  verb: string,
  sabotaged: ContractTarget,
  faithful: ContractTarget,
): Promise<string | undefined> {
  for (const one of contract.find((group) => group.verb === verb)?.cases ?? []) {
    const holds = (target: ContractTarget) => (one.skip(target) === undefined ? inTime(one.run(target)) : Promise.resolve(true));
    if (!(await holds(sabotaged)) && (await holds(faithful))) return one.name;
  }
  return undefined;
}

async function inTime(run: Promise<void>): Promise<boolean> {
  let timer: NodeJS.Timeout | undefined;
  const tooLong = new Promise<boolean>((resolve) => {
    timer = setTimeout(() => resolve(false), caseMsMax);
  });
  const ended = run.then(
    () => true,
    () => false,
  );
  const held = await Promise.race([ended, tooLong]);
  clearTimeout(timer);
  return held;
}
