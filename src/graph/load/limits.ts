/**
 * Every bound on what a document may be. A document is text that people write: what is beyond these is a mistake or an
 * attack, and is refused before it costs time or memory.
 */
export interface Limits {
  /** Of the document, and of every document that it refers to. */
  readonly bytesMax: number;
  /** Pieces of syntax: brackets, names, values, line ends. They are counted while reading, so reading ends with them. */
  readonly tokensMax: number;
  readonly depthMax: number;
  /** With every alias counted as often as it is used. */
  readonly nodesMax: number;
  readonly findingsMax: number;
  /** For a document that is fetched. */
  readonly fetchMsMax: number;
  /** Other documents that one refers to. */
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
