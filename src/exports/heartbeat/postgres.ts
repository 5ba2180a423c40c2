/** The program of the thread that renews leases while the event loop is stuck; an app that bundles onceflow bundles it as heartbeat.js. */
import "../../stores/postgres/heartbeat.js";
