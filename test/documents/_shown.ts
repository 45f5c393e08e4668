/** What a page shows of an output, and what was printed. */

/**
 * `…` in what a page shows stands for any text; ids, moments and keys differ from run to run.
 * @throws Error if the output is another one
 */
export function compare(shown: string, printed: string): void {
  const masked = [shown, printed].map((text) =>
    text
      .trim()
      .replaceAll(/\b(chatcmpl-|key_|req_)\w+…?/g, '$1…')
      .replaceAll(/\bsk-sluice-\w+…?/g, 'sk-sluice-…')
      .replaceAll(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, '…')
      .replaceAll(/"created": ?\d+/g, '"created":…')
      .replaceAll(/\s+/g, text.trim().startsWith('{') ? '' : ' '),
  )
  const pattern = masked[0]!
    .split('…')
    .map((part) => part.replaceAll(/[$()*+.?[\\\]^{|}]/g, '\\$&'))
    .join('[^]*?')
  if (!new RegExp(`^${pattern}$`).test(masked[1]!)) {
    throw new Error(`shows\n${shown.trim()}\nand the block before prints\n${printed.trim()}`)
  }
}

/**
 * The members that a page shows, in JSON, are in what was printed, with a value of the same type. Null on either side says that
 * a value may be missing, and an empty list nothing about items. The first item that is shown stands for one that was printed.
 * @throws Error that names the first member which is not
 */
export function compareShape(shown: string, printed: string): void {
  const wrong = differenceOf(JSON.parse(shown), JSON.parse(printed), '')
  if (wrong !== undefined) throw new Error(`${wrong}; the block before prints\n${printed.trim()}`)
}

function differenceOf(shown: unknown, printed: unknown, path: string): string | undefined {
  if (shown === null || printed === null) return undefined
  const [type, found] = [shown, printed].map((one) => (Array.isArray(one) ? 'list' : typeof one))
  if (type !== found) return `${path} is shown as ${type}, and is ${found}`
  if (Array.isArray(shown)) {
    const items = printed as unknown[]
    if (shown.length === 0) return undefined
    const differences = items.map((item, index) =>
      differenceOf(shown[0], item, `${path}[${index}]`),
    )
    if (differences.length === 0) return `${path} has no items`
    return differences.includes(undefined) ? undefined : differences[0]
  }
  if (typeof shown !== 'object') return undefined
  for (const [name, value] of Object.entries(shown)) {
    const wrong = differenceOf(value, (printed as any)[name], `${path}.${name}`)
    if (wrong !== undefined) return wrong
  }
  return undefined
}
