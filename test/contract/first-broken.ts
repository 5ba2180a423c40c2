import type { ContractGroup, ContractTarget } from "onceflow/testing";

/** How long a case may take here; a case that does not end has failed, too. */
const caseMsMax = 5000;

/** The name of the first case of a verb that a correct store passes and a sabotaged one fails. */
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
