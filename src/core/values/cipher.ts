import { createCipheriv, createDecipheriv, createSecretKey, type KeyObject, randomBytes } from "node:crypto";
import { EncryptionError, InvalidInputError } from "../errors/errors.js";

/** One AES-256 key. */
export interface EncryptionKey {
  /** Stored with every value that this key encrypts: never reuse it for another key. 1 to 64 of `A-Z a-z 0-9 . _ -`. */
  readonly id: string;
  /** 32 bytes; if it is a string, in hexadecimal or base64. */
  readonly key: Uint8Array | string;
}

/**
 * Encryption of stored values. To rotate keys, put the new key first and keep the old keys as long as values encrypted with them exist.
 *
 * @example
 * const store = await open("sqlite:app.db", { encryption: { keys: [{ id: "2026", key: process.env.ONCEFLOW_KEY }] } });
 */
export interface EncryptionOptions {
  /** The first key encrypts; all keys decrypt. At most 32. */
  readonly keys: readonly EncryptionKey[];
  /** True: reading a value that is not encrypted throws EncryptionError. Default false: values from before encryption stay readable. */
  readonly required?: boolean;
}

/**
 * Names the record and field that a text belongs to. It is authenticated with the text but not stored: a text that was moved to
 * another record or field does not decrypt.
 */
export type AssociatedData = readonly (string | number | null)[];

/** Neither JSON nor devalue's text begins with it. */
const sealedPrefix = "sealed:";
/** The first bytes of encrypted binary data. */
const mark = Buffer.from("\x93sealed\x01", "latin1");
const algorithm = "aes-256-gcm";
const keysMax = 32;
const ivBytes = 12;
const tagBytes = 16;

/** AES-256-GCM with a random 96-bit IV for every text. The id of the key is stored with the text. */
export class Cipher {
  readonly #keys: ReadonlyMap<string, KeyObject>;
  readonly #first: string;
  readonly #required: boolean;

  constructor({ keys, required = false }: EncryptionOptions) {
    if (!Array.isArray(keys) || keys.length < 1 || keys.length > keysMax)
      throw new InvalidInputError("encryption.keys", `must be a list of 1 to ${keysMax} keys, the first of which encrypts`);
    if (typeof required !== "boolean") throw new InvalidInputError("encryption.required", "must be true or false");
    this.#keys = new Map(keys.map(keyOf));
    if (this.#keys.size < keys.length)
      throw new InvalidInputError("encryption.keys", "has two keys with the same id; give every key its own id");
    this.#first = (keys[0] as EncryptionKey).id;
    this.#required = required;
  }

  seal(text: string, data: AssociatedData): string {
    const id = this.#first;
    return `${sealedPrefix}${id}:${this.#encrypt(Buffer.from(text), id, data).toString("base64")}`;
  }

  isSealed(text: string): boolean {
    return text.startsWith(sealedPrefix);
  }

  open(text: string, data: AssociatedData): string {
    if (!this.isSealed(text)) {
      if (this.#required) throw notEncrypted(data);
      return text;
    }
    const end = text.indexOf(":", sealedPrefix.length);
    return this.#decrypt(Buffer.from(text.slice(end + 1), "base64"), text.slice(sealedPrefix.length, end), data).toString();
  }

  sealBytes(bytes: Uint8Array, data: AssociatedData): Uint8Array {
    const id = this.#first;
    return Buffer.concat([mark, Buffer.from([id.length]), Buffer.from(id), this.#encrypt(bytes, id, data)]);
  }

  openBytes(bytes: Uint8Array, data: AssociatedData): Uint8Array {
    if (!mark.equals(bytes.subarray(0, mark.length))) {
      if (this.#required) throw notEncrypted(data);
      return bytes;
    }
    const at = mark.length + 1;
    const end = at + (bytes[mark.length] ?? 0);
    // A Uint8Array was written, so return one: a Buffer is encoded differently.
    return Uint8Array.from(this.#decrypt(bytes.subarray(end), Buffer.from(bytes.subarray(at, end)).toString(), data));
  }

  #encrypt(bytes: Uint8Array, id: string, data: AssociatedData): Buffer {
    const iv = randomBytes(ivBytes);
    const cipher = createCipheriv(algorithm, this.#keys.get(id) as KeyObject, iv, { authTagLength: tagBytes }).setAAD(
      bytesOfData(id, data),
    );
    return Buffer.concat([iv, cipher.update(bytes), cipher.final(), cipher.getAuthTag()]);
  }

  #decrypt(bytes: Uint8Array, id: string, data: AssociatedData): Buffer {
    const key = this.#keys.get(id);
    if (key === undefined)
      throw new EncryptionError(
        `${nameOf(data)} was encrypted with the key "${id}", which is not in encryption.keys; add that key after the first one`,
        id,
      );
    try {
      const decipher = createDecipheriv(algorithm, key, bytes.subarray(0, ivBytes), { authTagLength: tagBytes });
      decipher.setAAD(bytesOfData(id, data)).setAuthTag(bytes.subarray(Math.max(ivBytes, bytes.length - tagBytes)));
      return Buffer.concat([decipher.update(bytes.subarray(ivBytes, -tagBytes)), decipher.final()]);
    } catch {
      // No cause: the driver's error adds nothing.
      throw new EncryptionError(
        `${nameOf(data)} cannot be decrypted: the key given as "${id}" is not the key it was encrypted with, or the value was changed or moved in the database`,
        id,
      );
    }
  }
}

function bytesOfData(id: string, data: AssociatedData): Buffer {
  return Buffer.from(JSON.stringify(["onceflow", id, ...data]));
}

/** Names the stored value in messages, which must not contain the value itself. */
function nameOf(data: AssociatedData): string {
  return `[onceflow] the stored value ${data.map((part) => JSON.stringify(part)).join(" ")}`;
}

function notEncrypted(data: AssociatedData): EncryptionError {
  return new EncryptionError(
    `${nameOf(data)} is not encrypted, but encryption.required is set; remove encryption.required to read values from before encryption`,
  );
}

/** Checks one key. Messages name its index, never its content. */
function keyOf(given: EncryptionKey, i: number): [string, KeyObject] {
  const { id, key } = given ?? {};
  if (typeof id !== "string" || !/^[\w.-]{1,64}$/.test(id))
    throw new InvalidInputError(`encryption.keys[${i}].id`, "must be 1 to 64 letters, digits, dots, dashes or underscores");
  const bytes = typeof key === "string" ? bytesOf(key) : key;
  if (!(bytes instanceof Uint8Array) || bytes.length !== 32)
    throw new InvalidInputError(`encryption.keys[${i}].key`, "must have 32 bytes: a Uint8Array, or a string in hexadecimal or base64");
  return [id, createSecretKey(bytes)];
}

function bytesOf(text: string): Uint8Array | undefined {
  if (/^[0-9a-f]{64}$/i.test(text)) return Buffer.from(text, "hex");
  return /^[\w+/-]{43}=?$/.test(text) ? Buffer.from(text, "base64") : undefined;
}

/** Throws if a text that is about to be decoded is still encrypted. */
export function mustBeDecrypted(text: string): void {
  if (text.startsWith(sealedPrefix))
    throw new EncryptionError(
      "[onceflow] the stored value is encrypted, but this store was opened without keys; pass them to open(url, { encryption: { keys } })",
    );
}
