/** Things that were said to clients, kept for a while: each under a name, compressed and sealed. */
import { createCipheriv, createDecipheriv, hkdfSync, randomBytes } from 'node:crypto'
import { promisify } from 'node:util'
import { zstdCompress, zstdDecompress } from 'node:zlib'
import type { Storage } from 'unstorage'

/** A key of AES-256. */
type SealKey = Buffer

const CIPHER = 'aes-256-gcm'
/** Version of the form of an entry, its first byte. */
const FORM = 1
const NONCE_BYTES = 12
const TAG_BYTES = 16
const HEAD_BYTES = 1 + NONCE_BYTES + TAG_BYTES
/** Size of the time at which the entry ends, ms since epoch, in front of the compressed value. */
const MOMENT_BYTES = 8
/** No entry is larger; a forged one must not fill the memory. */
const MAX_BYTES = 16 * 1024 * 1024

const compress = promisify(zstdCompress)
const decompress = promisify(zstdDecompress)

/** Derives a key that the gateway itself does not store. @param salt what sets it apart from others of the same secret */
export function sealKey(secret: string, salt: string, info: string): SealKey {
  return Buffer.from(hkdfSync('sha256', secret, salt, info, 32))
}

/**
 * Entries over any storage. Who reads the storage can read no entry, move it to another name, or make its time longer.
 * The owner of the storage closes it.
 */
export class AnswerStorage {
  readonly #storage: Storage

  constructor(storage: Storage) {
    this.#storage = storage
  }

  /**
   * The value of an entry; undefined where there is none, where its time is over, and where it was not sealed with this
   * key under this name.
   * @throws what the storage throws
   */
  async get(name: string, key: SealKey): Promise<Buffer | undefined> {
    const entry: unknown = await this.#storage.getItemRaw(name)
    if (!(entry instanceof Uint8Array || entry instanceof ArrayBuffer)) return undefined
    try {
      return await opened(Buffer.from(entry as Uint8Array), name, key)
    } catch {
      return undefined
    }
  }

  /** Keeps a value. @returns false for one that is larger as stored @throws what the storage throws */
  async put(
    name: string,
    value: Uint8Array,
    ttlSeconds: number,
    key: SealKey,
    mostBytes = MAX_BYTES,
  ): Promise<boolean> {
    const entry = await sealed(value, Date.now() + ttlSeconds * 1000, name, key)
    if (entry.length > mostBytes) return false
    await this.#storage.setItemRaw(name, entry, { ttl: Math.ceil(ttlSeconds) })
    return true
  }

  async drop(name: string): Promise<void> {
    await this.#storage.removeItem(name)
  }
}

async function sealed(
  value: Uint8Array,
  until: number,
  name: string,
  key: SealKey,
): Promise<Buffer> {
  const moment = Buffer.alloc(MOMENT_BYTES)
  moment.writeDoubleBE(until)
  const nonce = randomBytes(NONCE_BYTES)
  const cipher = createCipheriv(CIPHER, key, nonce)
  cipher.setAAD(Buffer.from(name))
  const text = [cipher.update(moment), cipher.update(await compress(value)), cipher.final()]
  return Buffer.concat([Buffer.of(FORM), nonce, cipher.getAuthTag(), ...text])
}

/** @throws Error for an entry that is not whole, or not sealed with this key under this name */
async function opened(entry: Buffer, name: string, key: SealKey): Promise<Buffer | undefined> {
  if (entry[0] !== FORM) return undefined
  const nonce = entry.subarray(1, 1 + NONCE_BYTES)
  const decipher = createDecipheriv(CIPHER, key, nonce, { authTagLength: TAG_BYTES })
  decipher.setAAD(Buffer.from(name))
  decipher.setAuthTag(entry.subarray(1 + NONCE_BYTES, HEAD_BYTES))
  const value = Buffer.concat([decipher.update(entry.subarray(HEAD_BYTES)), decipher.final()])
  if (value.readDoubleBE(0) <= Date.now()) return undefined
  return decompress(value.subarray(MOMENT_BYTES), { maxOutputLength: MAX_BYTES })
}
