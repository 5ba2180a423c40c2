import { randomUUID } from "node:crypto";
import pg from "pg";

export interface FreshDatabase {
  readonly url: string;
  drop(): Promise<void>;
}

/** A database of its own on a server that others use at the same time, as each test file does. */
export async function freshDatabase(serverUrl: string): Promise<FreshDatabase> {
  const name = `onceflow_test_${randomUUID().replaceAll("-", "")}`;
  // template0 because nobody can be connected to it: a connection to the template is what makes this fail.
  await execute(serverUrl, `create database ${name} template template0`);
  const url = new URL(serverUrl);
  url.pathname = `/${name}`;
  // By force, because a killed test process's connections can outlive it for a moment.
  return { url: url.href, drop: () => execute(serverUrl, `drop database if exists ${name} with (force)`) };
}

export async function execute(url: string, statement: string): Promise<void> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    await client.query(statement);
  } finally {
    await client.end();
  }
}
