/** JSON whose numbers keep their digits. */

/** The third parameter of a reviver is missing in TypeScript's library. */
type Reviver = (
  this: unknown,
  name: string,
  value: unknown,
  context: { source?: string },
) => unknown

const raw = (JSON as { rawJSON(text: string): unknown }).rawJSON

/**
 * Parses JSON so that `JSON.stringify` writes every number with its original digits, such as ids above 2^53. Such
 * numbers are opaque objects after parsing, so the result is only good for passing on.
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
