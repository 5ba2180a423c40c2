export { Numbers } from "../../core/packet-numbers.js";
