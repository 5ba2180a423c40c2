/** One execution of a step's body, or of what stands in for it. */
export interface StepExecution<Args extends readonly unknown[] = readonly unknown[]> {
  readonly step: string;
  readonly runId: string;
  readonly stepId: string;
  readonly attempt: number;
  readonly args: Args;
  readonly at: Date;
  readonly mocked: boolean;
}
