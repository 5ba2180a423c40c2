/** One execution of a step's body or of its mock. */
export interface StepExecution<Args extends readonly unknown[] = readonly unknown[]> {
  /** Name of the step. */
  readonly step: string;
  readonly runId: string;
  /** The id of this call of the step: the same for every attempt. Use it as the idempotency key for a provider. */
  readonly stepId: string;
  /** Number of the attempt, from 1. */
  readonly attempt: number;
  /** The arguments of the call, without the transaction of a transactional step. */
  readonly args: Args;
  /** When the execution began, in the runner's time. */
  readonly at: Date;
  /** Whether a mock ran instead of the body. */
  readonly mocked: boolean;
}
