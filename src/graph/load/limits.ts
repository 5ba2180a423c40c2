/**
 * Limits on documents. People write documents: one that exceeds these limits is a mistake or an attack, and is rejected before it
 * costs time or memory.
 */
export interface Limits {
  /** Size of the document, and of each document that it refers to. Default 1 MiB. */
  readonly bytesMax: number;
  /** Number of tokens: brackets, names, values, line ends. Parsing stops at the limit. Default 100,000. */
  readonly tokensMax: number;
  /** Nesting. Default 100. */
  readonly depthMax: number;
  /** Number of values, with aliases counted at each use. Default 100,000. */
  readonly nodesMax: number;
  /** Number of findings that are reported. Default 200. */
  readonly findingsMax: number;
  /** Time to fetch a document from the network. Default 5 s. */
  readonly fetchMsMax: number;
  /** Number of other documents that a document refers to. Default 20. */
  readonly documentsMax: number;
}

export const defaultLimits: Limits = {
  bytesMax: 1024 * 1024,
  tokensMax: 100_000,
  depthMax: 100,
  nodesMax: 100_000,
  findingsMax: 200,
  fetchMsMax: 5000,
  documentsMax: 20,
};
