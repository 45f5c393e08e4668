/** What is kept of a call's contents: JSON with notes in the place of files, bounded. */
import { hash } from 'node:crypto'

/** Most characters that are kept of a request, and of an answer. */
export const MOST_CHARACTERS = 262_144
/** Size at which a number, a name or a bracket is counted. */
const LEAST = 4
/** Members whose base64 is a file, although nothing in the text says so. */
const FILES: ReadonlySet<string> = new Set(['data', 'file_data', 'b64_json', 'image_base64'])
/** Members that are credentials for a server that the vendor calls, such as a server of tools. */
const CREDENTIAL =
  /^(?:(?:proxy-)?authorization(?:_token)?|(?:x[-_])?(?:api|goog-api|auth)[-_]?key|apikey|(?:access|refresh|auth|bearer|id|session)[-_]?token|client_secret|secret|password|passwd|cookie)$/i
/** A member whose texts may all be credentials. */
const HEADERS = /headers$/i
/** Parameters of a URL that are credentials. */
const PARAMETER =
  /([?&#](?:[\w.-]*(?:key|token|secret|password|signature|credential)|sig|auth|code)=)[^&#]+/gi
const ADDRESS = /^[a-z][a-z\d+.-]*:\/\/\S+$/i
const SECRET = '[secret]'
/** A data URL that contains a file, with a type or as base64. */
const DATA_URL =
  /^data:(?:([\w.+-]+\/[\w.+-]+)(?:;[^,;]{1,200}){0,5}?(;base64)?|(?:;[^,;]{1,200}){0,5}?(;base64)),/i
const BASE64 = /^[A-Za-z0-9+/_-]*={0,2}\s*$/

interface MediaNote {
  /** Media type such as `image/png`; null where it is unknown. */
  readonly type: string | null
  readonly bytes: number
  readonly sha256: string
}

interface Kept {
  readonly json: string
  /** Whether it was longer than {@link MOST_CHARACTERS}: texts end early, and later members are missing. */
  readonly cut: boolean
}

/** A value without files, credentials and functions. @param value the value of a parsed request, so its depth is bounded */
export function keptOf(value: unknown): Kept {
  const copier = new Copier()
  const json = JSON.stringify(copier.copy(value, '')) ?? 'null'
  return { json, cut: copier.cut }
}

/** A kept value with empty files in the place of notes, for readers that expect texts there. */
export function restored(json: string): unknown {
  return JSON.parse(json, (_, value: unknown) =>
    isNote(value) ? `data:${value.type ?? ''};base64,` : value,
  )
}

class Copier {
  cut = false
  #left = MOST_CHARACTERS

  /** @param hidden whether all texts in it are credentials */
  copy(value: unknown, name: string, hidden = false): unknown {
    if (typeof value === 'string') return hidden ? this.#keep(SECRET) : this.#text(value, name)
    if (typeof value !== 'object' || value === null) {
      this.#left -= LEAST
      return typeof value === 'bigint' ? String(value) : value
    }
    const file = bytesOf(value)
    if (file) return this.#note(file.type, file.bytes)
    if (Array.isArray(value)) return this.#list(value, name, hidden)
    return this.#members(value, name, hidden)
  }

  #text(text: string, name: string): unknown {
    const [head, type, typed, untyped] = DATA_URL.exec(text.slice(0, 2048)) ?? []
    if (head !== undefined) {
      const encoding = (typed ?? untyped) ? 'base64' : 'utf8'
      return this.#note(type ?? null, Buffer.from(text.slice(head.length), encoding))
    }
    if (CREDENTIAL.test(name)) return this.#keep(SECRET)
    if (ADDRESS.test(text)) return this.#keep(withoutSecrets(text))
    if (FILES.has(name) && BASE64.test(text)) return this.#note(null, Buffer.from(text, 'base64'))
    return this.#keep(text)
  }

  #keep(text: string): string {
    const shown = text.slice(0, Math.max(0, this.#left))
    if (shown.length < text.length) this.cut = true
    this.#left -= shown.length + LEAST
    return shown
  }

  #list(list: readonly unknown[], name: string, hidden: boolean): unknown[] {
    const copies: unknown[] = []
    for (const one of list) {
      if (this.#isFull()) break
      copies.push(this.copy(one, name, hidden))
    }
    return copies
  }

  #members(value: object, of: string, hidden: boolean): object {
    const copies: [string, unknown][] = []
    for (const [name, member] of Object.entries(value)) {
      if (typeof member === 'function' || member === undefined) continue
      if (this.#isFull()) break
      this.#left -= name.length
      // Not in a schema, whose members are descriptions.
      const isSecret = hidden || (HEADERS.test(name) && of !== 'properties')
      copies.push([name, this.copy(member, name, isSecret)])
    }
    return Object.fromEntries(copies)
  }

  #isFull(): boolean {
    if (this.#left > 0) return false
    return (this.cut = true)
  }

  #note(type: string | null, bytes: Uint8Array): MediaNote {
    this.#left -= 100
    return { type, bytes: bytes.byteLength, sha256: hash('sha256', bytes) }
  }
}

/** The bytes of a file, in the forms in which requests have them. */
function bytesOf(
  value: object,
): { readonly type: string | null; readonly bytes: Uint8Array } | undefined {
  if (value instanceof Uint8Array) return { type: null, bytes: value }
  const { bytes, mediaType } = value as { bytes?: unknown; mediaType?: unknown }
  if (!(bytes instanceof Uint8Array)) return undefined
  return { type: typeof mediaType === 'string' ? mediaType : null, bytes }
}

/** A URL without the parameters and the password that give access. */
function withoutSecrets(address: string): string {
  return address
    .replace(/^([^/]*\/\/)[^/?#]*@/, `$1${SECRET}@`)
    .replaceAll(PARAMETER, `$1${SECRET}`)
}

function isNote(value: unknown): value is MediaNote {
  if (typeof value !== 'object' || value === null) return false
  const { type, bytes, sha256, ...more } = value as Partial<MediaNote>
  return (
    type !== undefined &&
    typeof bytes === 'number' &&
    typeof sha256 === 'string' &&
    Object.keys(more).length === 0
  )
}
