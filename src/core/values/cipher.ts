import { createCipheriv, createDecipheriv, createSecretKey, type KeyObject, randomBytes } from "node:crypto";
import { EncryptionError, InvalidInputError } from "../errors/errors.js";

export interface EncryptionKey {
  /** Stored with everything that this key encrypts: never use it for another key. 1 to 64 of `A-Z a-z 0-9 . _ -`. */
  readonly id: string;
  /** 32 bytes; as a string in hexadecimal or base64. */
  readonly key: Uint8Array | string;
}

export interface EncryptionOptions {
  /** The first one encrypts; all of them decrypt. At most 32. */
  readonly keys: readonly EncryptionKey[];
  /** True: what is stored in the clear is refused. Default false: what was written before encryption was on stays readable. */
  readonly required?: boolean;
}

/** What a text belongs to. It is not stored with it: a text that was moved elsewhere does not open. */
export type Place = readonly (string | number | null)[];

/** No JSON text begins with it, nor one of devalue's. */
const sealedPrefix = "sealed:";
/** Begins the bytes of whatever is not text. */
const mark = Buffer.from("\x93sealed\x01", "latin1");
const algorithm = "aes-256-gcm";
const keysMax = 32;
const ivBytes = 12;
const tagBytes = 16;

/** AES-256-GCM, with a random 96-bit IV for every text, and the id of its key beside it. */
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
      throw new InvalidInputError("encryption.keys", "has two keys with one id; an id names one key for ever");
    this.#first = (keys[0] as EncryptionKey).id;
    this.#required = required;
  }

  seal(text: string, place: Place): string {
    const id = this.#first;
    return `${sealedPrefix}${id}:${this.#encrypt(Buffer.from(text), id, place).toString("base64")}`;
  }

  isSealed(text: string): boolean {
    return text.startsWith(sealedPrefix);
  }

  open(text: string, place: Place): string {
    if (!this.isSealed(text)) {
      if (this.#required) throw inTheClear(place);
      return text;
    }
    const end = text.indexOf(":", sealedPrefix.length);
    return this.#decrypt(Buffer.from(text.slice(end + 1), "base64"), text.slice(sealedPrefix.length, end), place).toString();
  }

  sealBytes(bytes: Uint8Array, place: Place): Uint8Array {
    const id = this.#first;
    return Buffer.concat([mark, Buffer.from([id.length]), Buffer.from(id), this.#encrypt(bytes, id, place)]);
  }

  openBytes(bytes: Uint8Array, place: Place): Uint8Array {
    if (!mark.equals(bytes.subarray(0, mark.length))) {
      if (this.#required) throw inTheClear(place);
      return bytes;
    }
    const at = mark.length + 1;
    const end = at + (bytes[mark.length] ?? 0);
    // A Buffer would be another kind of value than what was written.
    return Uint8Array.from(this.#decrypt(bytes.subarray(end), Buffer.from(bytes.subarray(at, end)).toString(), place));
  }

  #encrypt(bytes: Uint8Array, id: string, place: Place): Buffer {
    const iv = randomBytes(ivBytes);
    const cipher = createCipheriv(algorithm, this.#keys.get(id) as KeyObject, iv, { authTagLength: tagBytes }).setAAD(belongsTo(id, place));
    return Buffer.concat([iv, cipher.update(bytes), cipher.final(), cipher.getAuthTag()]);
  }

  #decrypt(bytes: Uint8Array, id: string, place: Place): Buffer {
    const key = this.#keys.get(id);
    if (key === undefined)
      throw new EncryptionError(
        `${told(place)} was encrypted with the key "${id}", which is not among those given; add it to encryption.keys, behind the first`,
        id,
      );
    try {
      const decipher = createDecipheriv(algorithm, key, bytes.subarray(0, ivBytes), { authTagLength: tagBytes });
      decipher.setAAD(belongsTo(id, place)).setAuthTag(bytes.subarray(Math.max(ivBytes, bytes.length - tagBytes)));
      return Buffer.concat([decipher.update(bytes.subarray(ivBytes, -tagBytes)), decipher.final()]);
    } catch {
      // No cause: what it says is about the bytes.
      throw new EncryptionError(
        `${told(place)} cannot be decrypted: the key given as "${id}" is another one than it was encrypted with, or it was changed or moved in the database`,
        id,
      );
    }
  }
}

function belongsTo(id: string, place: Place): Buffer {
  return Buffer.from(JSON.stringify(["onceflow", id, ...place]));
}

function told(place: Place): string {
  return `[onceflow] what is stored as ${place.map((part) => JSON.stringify(part)).join(" ")}`;
}

function inTheClear(place: Place): EncryptionError {
  return new EncryptionError(
    `${told(place)} is not encrypted, and encryption.required is set; leave that out to read what was stored before`,
  );
}

/** Messages name the place, never what stands there. */
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

/** For whoever reads a text that should have been opened by now. */
export function mustBeClear(text: string): void {
  if (text.startsWith(sealedPrefix))
    throw new EncryptionError(
      "[onceflow] what is stored is encrypted, and this store was opened without keys; give them to open as its option encryption",
    );
}
