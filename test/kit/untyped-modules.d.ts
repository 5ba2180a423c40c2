/** Packages that the tests use as they are published, without types. */
declare module "compression";
declare module "cors";
declare module "express-session";
declare module "express4";
declare module "koa-bodyparser";
declare module "response-time";
