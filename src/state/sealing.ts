/** Seals short secrets, such as keys of vendors, so that the store holds none in plain text. AES-256-GCM of `node:crypto`. */
import {
  createCipheriv,
  createDecipheriv,
  createHash,
  hkdfSync,
  randomBytes,
  type CipherGCM,
} from 'node:crypto'
import { chmodSync, existsSync, readFileSync, renameSync, statSync, writeFileSync } from 'node:fs'

/** A sealed text: the id of the key, and in base64url the nonce, the sealed bytes and the tag. */
export interface Sealed {
  readonly $sealed: string
}

/** Where the key comes from. */
type SealingSource = 'variable' | 'file' | 'process'

interface SealingOptions {
  /** `SLUICEGATE_SECRET`. */
  readonly secret?: string | undefined
  /** `SLUICEGATE_SECRET_PREVIOUS`. */
  readonly previous?: string | undefined
  /** The file that keeps a key of the gateway's own. */
  readonly file?: string | undefined
  /** Whether gateways share the state, so that each needs the same key from outside. */
  readonly isShared: boolean
}

interface Key {
  readonly id: string
  readonly bytes: Buffer
}

/** A value that none of the keys opens. */
export class NotOpened extends Error {
  /** The id of the key that sealed it; empty for a value that is no sealed text. */
  readonly kid: string
  constructor(kid: string) {
    super(`sealed with another secret (${kid})`)
    this.kid = kid
  }
}

/** There is no key to seal with. */
export class NoSecret extends Error {}

const NONCE_BYTES = 12
const TAG_BYTES = 16
const KEY_BYTES = 32
const FORM = /^([0-9a-f]{8})\.([\w-]{40,})$/

export class Sealing {
  readonly source: SealingSource
  readonly #file: string | undefined
  readonly #isShared: boolean
  /** The first one seals; all of them open. */
  #keys: readonly Key[]

  constructor({ secret, previous, file, isShared }: SealingOptions) {
    this.#isShared = isShared
    this.source = secret !== undefined ? 'variable' : file !== undefined ? 'file' : 'process'
    this.#file = this.source === 'file' ? file : undefined
    const variables = [secret, previous].filter((one) => one !== undefined).map(derived)
    this.#keys = [...variables, ...keysIn(this.#file)]
  }

  /** The id of the key that seals; undefined where none has been made yet. */
  get kid(): string | undefined {
    return this.#keys[0]?.id
  }

  /** Whether there is a key beside the one that seals. */
  get hasFormer(): boolean {
    return this.#keys.length > 1
  }

  /** Permissions of the file as text, where others than its owner can read it. */
  get openMode(): string | undefined {
    if (this.#file === undefined || !existsSync(this.#file)) return undefined
    const mode = statSync(this.#file).mode & 0o777
    return (mode & 0o077) === 0 ? undefined : mode.toString(8)
  }

  /** @param place the place, such as `providers/openai/apiKey`: the value opens only there. @throws NoSecret */
  seal(text: string, place: string): Sealed {
    if (this.#keys.length === 0) {
      if (this.#isShared) throw new NoSecret()
      this.#useNewKey()
    }
    const [key] = this.#keys
    const nonce = randomBytes(NONCE_BYTES)
    const cipher: CipherGCM = createCipheriv('aes-256-gcm', key!.bytes, nonce)
    cipher.setAAD(Buffer.from(`sluicegate:${place}`))
    const bytes = Buffer.concat([nonce, cipher.update(text, 'utf8'), cipher.final()])
    const whole = Buffer.concat([bytes, cipher.getAuthTag()])
    return { $sealed: `${key!.id}.${whole.toString('base64url')}` }
  }

  /** @throws NotOpened */
  open({ $sealed }: Sealed, place: string): string {
    const [, kid = '', text = ''] = FORM.exec($sealed) ?? []
    const key = this.#keys.find(({ id }) => id === kid)
    if (!key) throw new NotOpened(kid)
    const whole = Buffer.from(text, 'base64url')
    try {
      const decipher = createDecipheriv('aes-256-gcm', key.bytes, whole.subarray(0, NONCE_BYTES))
      decipher.setAAD(Buffer.from(`sluicegate:${place}`))
      decipher.setAuthTag(whole.subarray(-TAG_BYTES))
      const opened = decipher.update(whole.subarray(NONCE_BYTES, -TAG_BYTES))
      return Buffer.concat([opened, decipher.final()]).toString('utf8')
    } catch {
      // It was changed, or moved here from another place.
      throw new NotOpened(kid)
    }
  }

  /** Begins to seal with a new key, and keeps the former ones to open what they have sealed. Not for a key of a variable. */
  addKey(): void {
    this.#useNewKey()
  }

  /** Forgets the former keys, once nothing is sealed with them. */
  dropFormer(): void {
    this.#keys = this.#keys.slice(0, 1)
    this.#write()
  }

  #useNewKey(): void {
    this.#keys = [keyOf(randomBytes(KEY_BYTES)), ...this.#keys]
    this.#write()
  }

  /** Writes the file whole or not at all. */
  #write(): void {
    if (this.#file === undefined) return
    const lines = this.#keys.map(({ bytes }) => `${bytes.toString('base64url')}\n`)
    const fresh = `${this.#file}.${process.pid}`
    writeFileSync(fresh, lines.join(''), { mode: 0o600, flush: true })
    chmodSync(fresh, 0o600)
    renameSync(fresh, this.#file)
  }
}

/** The id of the key that sealed a value. */
export function kidOf({ $sealed }: Sealed): string {
  return FORM.exec($sealed)?.[1] ?? ''
}

export function isSealed(value: unknown): value is Sealed {
  return typeof value === 'object' && value !== null && '$sealed' in value
}

function derived(secret: string): Key {
  return keyOf(Buffer.from(hkdfSync('sha256', secret, '', 'sluicegate sealing', KEY_BYTES)))
}

function keyOf(bytes: Buffer): Key {
  const id = createHash('sha256').update('sluicegate key id').update(bytes).digest('hex')
  return { id: id.slice(0, 8), bytes }
}

/** The keys of the file; none where it is absent, or holds something else. */
function keysIn(file: string | undefined): Key[] {
  if (file === undefined || !existsSync(file)) return []
  const keys = readFileSync(file, 'utf8').trim().split('\n')
  return keys
    .map((line) => Buffer.from(line, 'base64url'))
    .filter((bytes) => bytes.length === KEY_BYTES)
    .map(keyOf)
}
