import { node24 } from "./node24.js";
import { postgres } from "./postgres.js";

/** Everything `acquire` can get. A new server is one file like its neighbours and one line here. */
export const providers = {
  node24,
  postgres,
};
