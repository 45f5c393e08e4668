/** Keys in a provider's options, and texts that show them. Pure. */
import { namesSecret } from '../errors/issues.ts'

/** Shorter ones are parts of ordinary words. */
const SHORTEST_SECRET = 6
/** So many characters in a row tell a key from all others. */
const TELLING_CHARACTERS = 8

/** Texts in the options that have names like those of secrets. */
export function secretsIn(options: unknown, name = ''): string[] {
  if (typeof options === 'string') {
    return namesSecret(name) && options.length >= SHORTEST_SECRET ? [options] : []
  }
  if (typeof options !== 'object' || options === null) return []
  return Object.entries(options).flatMap(([key, value]) => secretsIn(value, key))
}

/** Whether a text has a secret, or so much of it that it can be known by it. */
export function shows(text: string, secrets: readonly string[]): boolean {
  return secrets.some((secret) => tellingParts(secret).some((part) => text.includes(part)))
}

/** The text without what {@link shows} would find. */
export function hide(text: string, secrets: readonly string[]): string {
  const hidden = new Uint8Array(text.length)
  for (const part of secrets.flatMap(tellingParts)) {
    for (let at = text.indexOf(part); at >= 0; at = text.indexOf(part, at + 1)) {
      hidden.fill(1, at, at + part.length)
    }
  }
  let shown = ''
  for (let i = 0; i < text.length; i++) {
    if (!hidden[i]) shown += text[i]
    else if (!hidden[i - 1]) shown += '[secret]'
  }
  return shown
}

function tellingParts(secret: string): string[] {
  if (secret.length <= TELLING_CHARACTERS) return [secret]
  const count = secret.length - TELLING_CHARACTERS + 1
  return Array.from({ length: count }, (_, i) => secret.slice(i, i + TELLING_CHARACTERS))
}
