export { type HistoryEntry, historyOf, withFailure } from "../../core/packet-history.js";
