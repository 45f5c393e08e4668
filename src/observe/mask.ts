/** Keeps the secrets of the configuration out of errors, logs and labels, whatever form a vendor or a plugin gives them. */
import { Buffer } from 'node:buffer'
import { inspect } from 'node:util'
import type { ConsolaInstance, ConsolaReporter } from 'consola'

/** Shorter texts occur in ordinary words. */
const LEAST_CHARACTERS = 6
const SECRET = '[secret]'
/** Keys of clients, and credentials in headers: recognised by their form. */
const CREDENTIAL = /\b(?:sk-[\w-]{8,}|Bearer [^\s"']+)/g
/** The level of warnings; errors are below it. */
const WARN = 1

export class Mask {
  /** All forms of all secrets, long ones first. */
  #forms: readonly string[] = []
  readonly #byOwner = new Map<object, readonly string[]>()

  /**
   * @param secrets the secrets from now on; those with less than 6 characters are not replaced
   * @param owner the owner of these secrets, which replace its earlier ones; by default the configuration
   */
  use(secrets: Iterable<string>, owner: object = this): void {
    const forms = [...secrets].flatMap(partsOf).flatMap(formsOf)
    if (forms.length > 0) this.#byOwner.set(owner, forms)
    else this.#byOwner.delete(owner)
    const all = new Set([...this.#byOwner.values()].flat())
    this.#forms = [...all].toSorted((a, b) => b.length - a.length)
  }

  /** A text without secrets: as they are, or escaped for JSON, encoded for an address, or in base64. */
  clean(text: string): string {
    let cleaned = text
    for (const form of this.#forms) cleaned = cleaned.replaceAll(form, SECRET)
    return cleaned.replaceAll(CREDENTIAL, SECRET)
  }

  /** A log whose warnings and errors, and all lines of plugins, are without secrets. */
  over(log: ConsolaInstance): ConsolaInstance {
    const reporters = log.options.reporters.map((reporter): ConsolaReporter => ({
      log: (entry, context) => {
        const hidden = entry.level <= WARN || entry.tag !== ''
        if (!hidden) return reporter.log(entry, context)
        const args = entry.args.map((value) => this.#cleanValue(value))
        reporter.log({ ...entry, args, members: this.#cleanMembers(entry.members) }, context)
      },
    }))
    return log.create({ reporters })
  }

  #cleanMembers(members: unknown): unknown {
    if (typeof members !== 'object' || members === null) return members
    const cleaned = Object.entries(members).map(([name, value]) => [name, this.#cleanValue(value)])
    return Object.fromEntries(cleaned)
  }

  /** The value itself if there is no secret in it, else a readable form of it. */
  #cleanValue(value: unknown): unknown {
    if (typeof value === 'string') return this.clean(value)
    if (typeof value !== 'object' || value === null) return value
    const text = inspect(value, { depth: 10, maxStringLength: null, breakLength: Infinity })
    const cleaned = this.clean(text)
    if (cleaned === text) return value
    return value instanceof Error ? this.#cleanError(value) : cleaned
  }

  /** An error with the name, the message and the stack of another one, and nothing else of it. */
  #cleanError({ name, message, stack = '' }: Error): Error {
    const error = new Error(this.clean(message))
    return Object.assign(error, { name, stack: this.clean(stack) })
  }
}

/** A setting, and the words of a setting with blanks, such as `Bearer …`. */
function partsOf(secret: string): string[] {
  const parts = secret.trim().split(/\s+/)
  return [secret, ...(parts.length > 1 ? parts : [])].filter(
    (part) => part.length >= LEAST_CHARACTERS,
  )
}

function formsOf(secret: string): string[] {
  const json = escaped(secret)
  const address = encodeURIComponent(secret)
  const form = new URLSearchParams([['', secret]]).toString().slice(1)
  return [
    secret,
    json,
    // JSON in JSON.
    escaped(json),
    json.replaceAll('/', '\\/'),
    inAscii(json),
    ...[address, form].flatMap((one) => [one, one.replaceAll(/%[\dA-F]{2}/g, lower)]),
    ...inBase64(secret),
  ]
}

function escaped(text: string): string {
  return JSON.stringify(text).slice(1, -1)
}

function inAscii(json: string): string {
  return json.replaceAll(
    /[\u0080-\uffff]/g,
    (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`,
  )
}

function lower(text: string): string {
  return text.toLowerCase()
}

/** The characters of base64 that depend on the secret alone, at each of the three offsets. */
function inBase64(secret: string): string[] {
  const bytes = Buffer.from(secret)
  return [0, 1, 2].flatMap((before) => {
    const encoded = Buffer.concat([Buffer.alloc(before), bytes]).toString('base64')
    const from = Math.ceil((before * 8) / 6)
    const to = Math.floor(((before + bytes.length) * 8) / 6)
    const core = encoded.slice(from, to)
    return [core, core.replaceAll('+', '-').replaceAll('/', '_')]
  })
}
