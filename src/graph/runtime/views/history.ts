export { type HistoryEntry, historyOf, withFailure } from "../../../core/packets/history.js";
