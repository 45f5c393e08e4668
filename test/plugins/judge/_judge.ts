/** A fake judge model that a test can make honest, wrong or broken. */
import { json, type FakeResponse, type ReceivedRequest } from '../../upstream.ts'
import { wholeOf } from '../../guard/_setup.ts'

/** A parsed question to the judge. */
export interface Asked {
  readonly system: string
  readonly nonce: string
  readonly keys: readonly string[]
  readonly evidence: {
    readonly side: string
    readonly context?: {
      readonly asked?: string
      readonly before?: readonly { from: string; text: string }[]
    }
    readonly passages: readonly {
      readonly id: string
      readonly texts: readonly { from: string; text: string }[]
      readonly decoded?: readonly string[]
    }[]
  }
  /** The question as it was sent. */
  readonly text: string
}

/** Score per rule; 0 for rules that are not named. */
export type Marks = Readonly<Record<string, number | undefined>>

export function isForJudge({ json: body }: ReceivedRequest): boolean {
  return body.model === 'judge'
}

export function askedIn({ json: body }: ReceivedRequest): Asked {
  const [{ content: system }, { content }] = body.messages
  const text: string = typeof content === 'string' ? content : content[0].text
  const nonce = /number of this question is ([0-9a-f]{32})\./.exec(text)![1]!
  const marker = `evidence ${nonce} =====\n`
  const from = text.indexOf(marker) + marker.length
  const evidence = JSON.parse(text.slice(from, text.indexOf(`\n===== end of ${marker.trim()}`)))
  const keys = [
    ...system
      .split('\nRules:\n')
      .at(-1)!
      .matchAll(/^- ([a-z_0-9]+): /gm),
  ].map((match) => match[1]!)
  return { system, nonce, keys, evidence, text }
}

/** The texts of a passage, joined. */
export function passageText({
  texts,
  decoded = [],
}: Asked['evidence']['passages'][number]): string {
  return [...texts.map(({ text }) => text), ...decoded].join('\n')
}

/** A complete answer that recognises lighthouses and otherwise follows the test. */
export function honest(asked: Asked, see: (text: string) => Marks): object {
  return {
    nonce: asked.nonce,
    verdicts: asked.evidence.passages.map((passage) => {
      const text = passageText(passage)
      const seen: Marks = { lighthouse: text.includes('lighthouse') ? 0.9 : 0.1, ...see(text) }
      const marks = Object.fromEntries(asked.keys.map((key) => [key, seen[key] ?? 0]))
      return { passage: passage.id, ...marks }
    }),
  }
}

/** Answers for the judge model and for the model that it judges. */
export function vendorOf(
  judge: (asked: Asked, request: ReceivedRequest) => FakeResponse | object | string,
  model: FakeResponse | (() => FakeResponse) = wholeOf({ content: 'Fine.' }),
) {
  return (request: ReceivedRequest): FakeResponse => {
    if (!isForJudge(request)) return typeof model === 'function' ? model() : model
    const said = judge(askedIn(request), request)
    if (typeof said === 'object' && 'pieces' in said) return said as FakeResponse
    return wholeOf({ content: typeof said === 'string' ? said : JSON.stringify(said) })
  }
}

/** Blocks texts with this word, for this rule. */
export const against =
  (word: string, key = 'code', mark = 0.9) =>
  (text: string): Marks =>
    text.includes(word) ? { [key]: mark } : {}

/** Refuses requests with one of these members, as vendors do. */
export function refusing(...members: readonly string[]) {
  return (request: ReceivedRequest): FakeResponse | undefined =>
    members.some((member) => member in request.json)
      ? json({ error: { message: `unknown member`, type: 'invalid_request_error' } }, 400)
      : undefined
}
