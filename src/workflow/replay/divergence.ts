/** The code makes another request than its journal has. */
export interface Divergence {
  /** What the journal has next. */
  readonly expected: string;
  /** What the code did instead. */
  readonly found: string;
  /** Location in the user's code. Default: the definition of the workflow. */
  readonly where?: string;
  /** Only the arguments of a step differ. */
  readonly input?: { readonly id: string; readonly stepId: string; readonly asked: readonly unknown[] };
  /** The text in `found` already says what to do. */
  readonly isAdvised?: boolean;
  /** How the arguments differ, if it is known. */
  readonly difference?: string;
}
