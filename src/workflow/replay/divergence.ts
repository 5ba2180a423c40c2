/** The code asks for something else than its journal has. */
export interface Divergence {
  /** By the journal. */
  readonly expected: string;
  readonly found: string;
  /** In the user's code. Default: where the workflow is defined. */
  readonly where?: string;
  /** Only the arguments of a step differ. */
  readonly input?: { readonly id: string; readonly stepId: string; readonly asked: readonly unknown[] };
  /** `found` says what to do. */
  readonly isAdvised?: boolean;
  /** In which of its arguments, as far as that is known. */
  readonly difference?: string;
}
