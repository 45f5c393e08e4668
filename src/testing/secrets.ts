/** Finds secrets in options, and their traces in texts. Pure functions. */
import { namesSecret } from '../errors/issues.ts'

/** Shorter values may be parts of ordinary words. */
const MIN_SECRET = 6
/** This many characters of a secret in a row identify it. */
const IDENTIFYING_CHARACTERS = 8

export function secretsIn(options: unknown, name = ''): string[] {
  if (typeof options === 'string') {
    return namesSecret(name) && options.length >= MIN_SECRET ? [options] : []
  }
  if (typeof options !== 'object' || options === null) return []
  return Object.entries(options).flatMap(([key, value]) => secretsIn(value, key))
}

export function containsSecret(text: string, secrets: readonly string[]): boolean {
  return secrets.some((secret) => identifyingParts(secret).some((part) => text.includes(part)))
}

/** Replaces everything that {@link containsSecret} finds with `[secret]`. */
export function redactSecrets(text: string, secrets: readonly string[]): string {
  const hidden = new Uint8Array(text.length)
  for (const part of secrets.flatMap(identifyingParts)) {
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

function identifyingParts(secret: string): string[] {
  if (secret.length <= IDENTIFYING_CHARACTERS) return [secret]
  const count = secret.length - IDENTIFYING_CHARACTERS + 1
  return Array.from({ length: count }, (_, i) => secret.slice(i, i + IDENTIFYING_CHARACTERS))
}
