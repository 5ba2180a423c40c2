import type { Server } from "node:http";
import { serve } from "@hono/node-server";
import { serveWith } from "../stripe-events/service.js";
import { app } from "./app.js";

await serveWith((port, hostname) => serve({ fetch: app.fetch, port, hostname }) as Server);
