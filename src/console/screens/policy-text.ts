/** A policy as text: how it is written, read, and where it is wrong. Pure. */
import type { Policy } from '../answers.ts'

const ORDER = [
  'version',
  'scope',
  'deny',
  'systemPrompt',
  'refusal',
  'escalate',
  'maxOutputTokens',
  'bannedPatterns',
  'guard',
]

type Parsed =
  | { readonly policy: Policy; readonly error?: undefined }
  | { readonly policy?: undefined; readonly error: TextError }

interface TextError {
  readonly message: string
  readonly line: number
  readonly column: number
}

/** A policy as text: members in the order of the documentation, without those that are empty. */
export function writePolicy(policy: Policy): string {
  const known = policy as unknown as Record<string, unknown>
  const names = [...ORDER, ...Object.keys(known).filter((name) => !ORDER.includes(name))]
  const members = names.filter((name) => !isEmpty(known[name])).map((name) => [name, known[name]])
  return JSON.stringify(Object.fromEntries(members), undefined, 2)
}

export function readPolicyText(text: string): Parsed {
  try {
    const policy = JSON.parse(text) as unknown
    if (typeof policy === 'object' && policy !== null && !Array.isArray(policy)) {
      return { policy: policy as Policy }
    }
    return { error: { message: 'A policy is an object: { "version": 1, … }', line: 1, column: 1 } }
  } catch (error) {
    return { error: whereOf(text, String((error as Error).message)) }
  }
}

/** The line of a member such as `policy.bannedPatterns[1]`, from 1 on; undefined where the text does not show it. */
export function lineOf(text: string, param: string): number | undefined {
  const [, name, index, inner] = /^policy\.?(\w+)(?:\[(\d+)\])?(?:\.(\w+))?/.exec(param) ?? []
  if (name === undefined) return undefined
  const lines = text.split('\n')
  const at = lines.findIndex((line) => line.includes(`"${name}"`))
  if (at < 0) return undefined
  if (index !== undefined) return at + 2 + Number(index)
  if (inner === undefined) return at + 1
  const below = lines.findIndex((line, place) => place > at && line.includes(`"${inner}"`))
  return (below < 0 ? at : below) + 1
}

/** A text in parts, with the spans that cover each: overlapping ones are on the same part. */
export function marked(
  text: string,
  spans: readonly { readonly start: number; readonly end: number; readonly rule: string }[],
): readonly { readonly text: string; readonly rules: readonly string[] }[] {
  const borders = new Set([0, text.length, ...spans.flatMap(({ start, end }) => [start, end])])
  const places = [...borders]
    .filter((place) => place >= 0 && place <= text.length)
    .sort((a, b) => a - b)
  return places.slice(1).map((end, index) => {
    const start = places[index]!
    const rules = spans
      .filter((span) => span.start <= start && span.end >= end)
      .map(({ rule }) => rule)
    return { text: text.slice(start, end), rules: [...new Set(rules)] }
  })
}

function isEmpty(value: unknown): boolean {
  if (value === undefined || value === '') return true
  if (Array.isArray(value)) return value.length === 0
  return (
    typeof value === 'object' &&
    value !== null &&
    Object.values(value).every((one) => one === undefined)
  )
}

function whereOf(text: string, message: string): TextError {
  const [, line, column] = /line (\d+) column (\d+)/.exec(message) ?? []
  if (line) return { message: plain(message), line: Number(line), column: Number(column) }
  const position = Number(/position (\d+)/.exec(message)?.[1] ?? text.length)
  const before = text.slice(0, position).split('\n')
  return { message: plain(message), line: before.length, column: before.at(-1)!.length + 1 }
}

function plain(message: string): string {
  return message.replace(/ in JSON at position.*$/, '').replace(/ \(line.*\)$/, '')
}
