import { spawnSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

export interface Certificate {
  readonly cert: string;
  readonly key: string;
}

/** Undefined: the program openssl is not there. */
export function openssl(): string | undefined {
  return spawnSync("openssl", ["version"]).status === 0 ? "openssl" : undefined;
}

/** A certificate authority, and certificates of a server on loopback and of a client, made for one test and valid for one day. */
export function makeCertificates(folder: string): { readonly ca: string; readonly server: Certificate; readonly client: Certificate } {
  const run = (...args: readonly string[]) => {
    const { status, stderr } = spawnSync("openssl", args, { cwd: folder, encoding: "utf8" });
    if (status !== 0) throw new Error(`openssl ${args[0]}: ${stderr}`);
  };
  const newKey = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"];
  run("req", "-x509", ...newKey, "-keyout", "ca.key", "-out", "ca.pem", "-days", "1", "-subj", "/CN=test authority");
  const issue = (name: string, extensions: string): Certificate => {
    writeFileSync(join(folder, `${name}.ext`), extensions);
    run("req", ...newKey, "-keyout", `${name}.key`, "-out", `${name}.csr`, "-subj", `/CN=${name}`);
    run(
      "x509",
      "-req",
      "-in",
      `${name}.csr`,
      "-CA",
      "ca.pem",
      "-CAkey",
      "ca.key",
      "-CAcreateserial",
      "-out",
      `${name}.pem`,
      "-days",
      "1",
      "-extfile",
      `${name}.ext`,
    );
    return { cert: readFileSync(join(folder, `${name}.pem`), "utf8"), key: readFileSync(join(folder, `${name}.key`), "utf8") };
  };
  return {
    server: issue("server", "subjectAltName=IP:127.0.0.1,DNS:localhost,DNS:nodes.example.org"),
    client: issue("client", "extendedKeyUsage=clientAuth"),
    ca: readFileSync(join(folder, "ca.pem"), "utf8"),
  };
}
