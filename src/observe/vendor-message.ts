/** Messages of vendors about failures, made fit for the log: vendors quote keys, addresses and prompts. */

/** Most characters in the log. */
const MOST = 500
/** Most characters of a body that are read. */
const LOOKED_AT = 64 * 1024
/** Longer quotations may come from a prompt. */
const LONGEST_QUOTE = 40
/** Most levels of nested JSON: vendors wrap the message of the vendor behind them. */
const DEPTH = 4

/** Quotations; the end of the text also ends a quotation that was cut. */
const QUOTED = [
  /"([^"]*)("|$)/g,
  /`([^`]*)(`|$)/g,
  /“([^”]*)(”|$)/g,
  /«([^»]*)(»|$)/g,
  /(?<!\w)'([^']*)('(?!\w))/g,
]
const CREDENTIALS = [
  /\b(?:sk|pk|rk|gsk|xai|pplx|csk|nvapi|hf|ghp|glpat)[-_][\w*-]{4,}/g,
  /\b(?:Bearer|Basic|Token)\s+\S{6,}/gi,
  /\b((?:api[-_]?)?key|token|signature|sig|secret|password|credential)(["']?\s*[=:]\s*["']?)[^\s"',&;]+/gi,
  /\b(?:AKIA|ASIA|AROA)[A-Z0-9]{12,}/g,
  /\bAIza[\w-]{30,}/g,
  /\bya29\.[\w.-]+/g,
  /\beyJ[\w-]{8,}(?:\.[\w-]*){1,2}/g,
  // Long random text is a key of an unknown form.
  /(?=[\w+/=-]*\d)[\w+/=-]{32,}/g,
]

/**
 * The message in the body of an answer with an error status: at most 500 characters, without credentials, queries of addresses
 * and long quotations.
 * @param clean removes the secrets of the configuration
 * @returns undefined without a message
 */
export function vendorMessage(body: string, clean: (text: string) => string): string | undefined {
  const message = messageIn(body.slice(0, LOOKED_AT))
  return message === undefined || message === '' ? undefined : scrub(message, clean)
}

/** A vendor's text without credentials, queries of addresses and long quotations, cut to 500 characters. */
export function scrub(text: string, clean: (text: string) => string): string {
  let scrubbed = clean(text.slice(0, LOOKED_AT)).replaceAll(/\s+/g, ' ').trim()
  for (const quoted of QUOTED) scrubbed = scrubbed.replaceAll(quoted, shortened)
  scrubbed = scrubbed.replaceAll(/(\w+:\/\/)(?:[^\s/@]*@)?([^\s?#"'<>]*)[?#][^\s"'<>]*/g, '$1$2')
  for (const credential of CREDENTIALS) {
    scrubbed = scrubbed.replaceAll(credential, (_found, name?: string, sign?: string) =>
      typeof name === 'string' && typeof sign === 'string' ? `${name}${sign}[secret]` : '[secret]',
    )
  }
  return scrubbed.length > MOST ? `${scrubbed.slice(0, MOST - 1)}…` : scrubbed
}

function shortened(quotation: string, inside: string, end: string): string {
  if (inside.length <= LONGEST_QUOTE) return quotation
  return `${quotation[0]}[${inside.length} characters]${end}`
}

/** The text of a JSON error in the forms that vendors use; of anything but JSON only a text without marks of HTML. */
function messageIn(body: string): string | undefined {
  const value = parsed(body)
  if (value !== undefined) return textOf(value, DEPTH)
  return /[<{]/.test(body) ? undefined : body
}

const MEMBERS = ['error', 'message', 'detail', 'error_description', 'err_msg', 'Message']

function textOf(value: unknown, depth: number): string | undefined {
  if (typeof value === 'string') {
    const nested = depth > 0 ? parsed(value) : undefined
    return typeof nested === 'object' ? textOf(nested, depth - 1) : value
  }
  if (depth === 0 || typeof value !== 'object' || value === null) return undefined
  if (Array.isArray(value)) return textOf(value[0], depth - 1)
  for (const name of MEMBERS) {
    const text = textOf((value as Record<string, unknown>)[name], depth - 1)
    if (text !== undefined && text !== '') return text
  }
  return undefined
}

function parsed(text: string): unknown {
  if (!/^\s*[[{"]/.test(text)) return undefined
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
