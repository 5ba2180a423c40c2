import { retryAtOnce } from "../../src/workflow/define/default-backoff.js";

// Steps of tests that set no backoff would wait for up to two minutes.
retryAtOnce();
