import { serveWith } from "../stripe-events/service.js";
import { app } from "./app.js";

await serveWith((port, hostname) => app.listen(port, hostname));
