import { randomUUID } from "node:crypto";
import pg from "pg";

export interface FreshDatabase {
  readonly url: string;
  drop(): Promise<void>;
}

/** Creates a database for one test file, on a server that other test files use at the same time. */
export async function freshDatabase(serverUrl: string): Promise<FreshDatabase> {
  const name = `onceflow_test_${randomUUID().replaceAll("-", "")}`;
  // template0 accepts no connections: with a connection to its template, CREATE DATABASE fails.
  await execute(serverUrl, `create database ${name} template template0`);
  const url = new URL(serverUrl);
  url.pathname = `/${name}`;
  // By force, because connections of a killed test process may stay open for a moment.
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
