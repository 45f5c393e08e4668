/** JSON on its way through: what models and tools wrote is passed on, not understood. */

/** A reviver that keeps the digits of numbers; TypeScript's library does not know its third parameter yet. */
type Reviver = (
  this: unknown,
  name: string,
  value: unknown,
  context: { source?: string },
) => unknown

const raw = (JSON as unknown as { rawJSON(text: string): unknown }).rawJSON

/**
 * Parses JSON so that `JSON.stringify` writes each number as it was: identifiers beyond 2^53 stay what they are. Such a
 * number is no number in between, so this is for values that are handed on.
 * @throws SyntaxError
 */
export function parseExactly(text: string): unknown {
  return JSON.parse(text, keepDigits as Parameters<typeof JSON.parse>[1])
}

const keepDigits: Reviver = function (_name, value, { source }) {
  return typeof value === 'number' && source !== undefined && String(value) !== source
    ? raw(source)
    : value
}

/** The arguments of a call as the object the vendor wants; text that is none is wrapped as `{"raw": …}`. */
export function toInput(text: string): unknown {
  if (text.trim() === '') return {}
  try {
    const input = parseExactly(text)
    if (isPlainObject(input)) return input
  } catch {
    // The model wrote it like this: it gets it back.
  }
  return { raw: text }
}

function isPlainObject(value: unknown): boolean {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return false
  return !(JSON as unknown as { isRawJSON(value: unknown): boolean }).isRawJSON(value)
}
