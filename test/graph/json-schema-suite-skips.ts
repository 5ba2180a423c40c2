/** Cases of the official suite for which the result differs from the suite's, and what happens instead. */
export interface Skip {
  readonly reason: string;
  /**
   * - `refused`: the document is not loaded, and the finding has one of these codes.
   * - `note`: the keyword or format is not checked, so every value of these cases is valid.
   */
  readonly instead: { readonly refused: readonly string[] } | "note";
  /** The groups of each file by description, or all of them. */
  readonly groups: Readonly<Record<string, readonly string[] | "all">>;
}

export const skips: readonly Skip[] = [
  {
    reason: "a reference leads into the document or to a file: no schema is fetched from the network unless that is allowed",
    instead: { refused: ["FLOW_BAD_REF", "FLOW_UNKNOWN_PACKET", "FLOW_UNREADABLE"] },
    groups: {
      "refRemote.json": "all",
      "optional/cross-draft.json": "all",
      "definitions.json": ["validate definition against metaschema"],
      "ref.json": ["remote ref, containing refs itself"],
    },
  },
  {
    reason: "a reference is a JSON pointer or the name of a packet: a schema is not found by its $id, nor by a name such as #name",
    instead: { refused: ["FLOW_BAD_REF", "FLOW_UNKNOWN_PACKET", "FLOW_UNREADABLE"] },
    groups: {
      "ref.json": [
        "$ref prevents a sibling $id from changing the base uri",
        "Recursive references between schemas",
        "Location-independent identifier",
        "Reference an anchor with a non-relative URI",
        "Location-independent identifier with base URI change in subschema",
        "refs with relative uris and defs",
        "relative refs with absolute uris and defs",
        "$id must be resolved against nearest parent, not just immediate parent",
        "simple URN base URI with $ref via the URN",
        "URN base URI with URN and JSON pointer ref",
        "URN base URI with URN and anchor ref",
        "ref to if",
        "ref to then",
        "ref to else",
        "ref with absolute-path-reference",
      ],
      "optional/id.json": ["id inside an enum is not a real identifier"],
      "optional/unknownKeyword.json": ["$id inside an unknown keyword is not a real identifier"],
    },
  },
  {
    reason: "numbers that JavaScript cannot hold exactly are refused in a document",
    instead: { refused: ["FLOW_BAD_NUMBER"] },
    groups: {
      "const.json": ["float and integers are equal up to 64-bit representation limits"],
      "optional/bignum.json": ["maximum integer comparison", "minimum integer comparison"],
    },
  },
  {
    reason: "a field of a document must not be named __proto__",
    instead: { refused: ["FLOW_FORBIDDEN_KEY"] },
    groups: { "properties.json": ["properties whose names are Javascript object property names"] },
  },
  {
    reason: "contentEncoding and contentMediaType are notes: draft-07 leaves it to the implementation whether a text is decoded",
    instead: "note",
    groups: { "optional/content.json": "all" },
  },
  {
    reason: "formats with characters of all languages are notes: they need tables of Unicode that change from year to year",
    instead: "note",
    groups: {
      "optional/format/idn-email.json": "all",
      "optional/format/idn-hostname.json": "all",
      "optional/format/iri.json": "all",
      "optional/format/iri-reference.json": "all",
    },
  },
];
