/** A generated file. */
export interface GeneratedFile {
  readonly name: string;
  readonly text: string;
  /** True for a stub to edit: the command line does not overwrite it if it exists. */
  readonly yours: boolean;
}
