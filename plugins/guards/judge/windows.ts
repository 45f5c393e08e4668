/** Selects what is judged and what is shown as context, and splits both into questions of limited size. */
import { createHmac, randomBytes } from 'node:crypto'
import type { TextItem, GuardContext, GuardHost, Verdict } from '../../../src/plugin.ts'
import {
  type JudgeInput,
  type Utterance,
  InvalidAnswer,
  type ModelClient,
  type JudgeModel,
  type RuleMatch,
} from './judge-model.ts'
import { sanitize } from './sanitize.ts'

const WINDOW = 6000
const OVERLAP = 400
const MAX_WINDOWS = 8
const MAX_IMAGES = 8
/** Characters of context: of system messages, and of other messages. */
const HEAD = 600
const TAIL = 2400

/** Channels of the current turn that are judged. */
const JUDGED = new Set<TextItem['channel']>(['content', 'document', 'prompt', 'search', 'speech'])
/** Channels that are shown as context. */
const SHOWN = new Set<TextItem['channel']>(['content', 'document', 'tool_call'])

/** One question about part of a turn. */
export interface Window {
  readonly input: JudgeInput
  /** Index of the last judged text. */
  readonly index: number
}

/** Whether a text is judged and not only shown. */
export function isJudged({ channel, current, role, text }: TextItem): boolean {
  return current && JUDGED.has(channel) && !(role === 'system') && text.trim() !== ''
}

/** Whether a text has media that the judge model cannot read. */
export function isUnreadable({ media = [] }: TextItem, readsImages: boolean): boolean {
  return media.some(({ kind, url }) => !(readsImages && kind === 'image' && url))
}

/** How many windows a text of so many characters has, as far as the guard judges it. */
export function windowsFor(characters: number): number {
  return Math.min(windowsIn(characters), MAX_WINDOWS)
}

/**
 * Questions about the judged texts, in order.
 * @throws TooLarge for more texts or images than the guard judges
 */
export function windowsOf(items: readonly TextItem[], readsImages: boolean): Window[] {
  const images = readsImages ? imagesIn(items) : []
  const judged = items.flatMap((item, index) =>
    isJudged(item) ? [{ from: item.role ?? item.channel, text: sanitize(item.text), index }] : [],
  )
  const before = contextOf(items)
  const length = judged.reduce((sum, { text }) => sum + text.length, 0)
  if (length === 0 && images.length === 0) return []
  const count = windowsIn(length)
  if (count > MAX_WINDOWS) {
    throw new TooLarge(`the turn has more than ${MAX_WINDOWS} windows of ${WINDOW} characters`)
  }
  return Array.from({ length: count }, (_, i) => {
    const from = i * (WINDOW - OVERLAP)
    const texts = slices(judged, from, from + WINDOW)
    const index = texts.at(-1)?.index ?? items.findLastIndex(({ media }) => media?.length)
    const utterances = texts.map(({ from: speaker, text }) => ({ from: speaker, text }))
    const shown = i === 0 ? images : []
    return {
      index,
      input: { side: 'input', texts: utterances, images: shown, before, question: '' },
    }
  })
}

/** Questions about a part of an answer, or about all of it. @throws TooLarge for more text than the guard judges */
export function windowsOfAnswer({ text, channel, context, role }: TextItem): Window[] {
  const item: TextItem = {
    id: '',
    side: 'input',
    channel: 'content',
    current: true,
    text,
    role: 'user',
  }
  const from = channel === 'content' ? (role ?? 'assistant') : channel
  const before = context?.before ? [{ from: 'assistant', text: sanitize(context.before) }] : []
  const question = sanitize(context?.userTurn ?? '')
  return windowsOf([item], false).map(({ input }) => ({
    index: 0,
    input: {
      side: 'output',
      texts: input.texts.map((utterance) => ({ ...utterance, from })),
      images: [],
      before,
      question,
    },
  }))
}

function windowsIn(characters: number): number {
  return characters <= WINDOW ? 1 : Math.ceil((characters - OVERLAP) / (WINDOW - OVERLAP))
}

interface IndexedUtterance extends Utterance {
  readonly index: number
}

/** The part between two offsets of the concatenated texts. */
function slices(
  pieces: readonly IndexedUtterance[],
  start: number,
  end: number,
): IndexedUtterance[] {
  const found: IndexedUtterance[] = []
  let at = 0
  for (const piece of pieces) {
    const { length } = piece.text
    const from = codePointStart(piece.text, Math.max(0, start - at))
    const to = codePointStart(piece.text, Math.min(length, end - at))
    if (from < to) found.push({ ...piece, text: piece.text.slice(from, to) })
    at += length
  }
  return found
}

/** Does not split surrogate pairs. */
function codePointStart(text: string, at: number): number {
  const code = at > 0 && at < text.length ? text.charCodeAt(at) : 0
  return code >= 0xdc00 && code <= 0xdfff ? at - 1 : at
}

/** Context: the start of the system messages and the end of the other messages that are not judged. */
function contextOf(items: readonly TextItem[]): Utterance[] {
  const shown = items.filter(
    (item) =>
      !isJudged(item) && SHOWN.has(item.channel) && item.text !== '' && !item.id.includes('#'),
  )
  const head: Utterance[] = []
  const rest: Utterance[] = []
  let room = HEAD
  for (const { role, text } of shown) {
    if (role !== 'system' || room <= 0) continue
    const part = sanitize(text).slice(0, room)
    head.push({ from: 'system', text: part })
    room -= part.length
  }
  room = TAIL
  for (const { role = 'user', text } of shown.toReversed()) {
    if (role === 'system' || room <= 0) continue
    const part = sanitize(text).slice(-room)
    rest.unshift({ from: role, text: part })
    room -= part.length
  }
  return [...head, ...rest]
}

function imagesIn(items: readonly TextItem[]): string[] {
  const urls = items.flatMap(({ media = [] }) =>
    media.flatMap(({ kind, url }) => (kind === 'image' && url ? [url] : [])),
  )
  if (urls.length > MAX_IMAGES) throw new TooLarge(`there are more than ${MAX_IMAGES} images`)
  return urls
}

const REMEMBERED_SECONDS = 600
/** Keeps cache keys unpredictable from outside this process. */
const secret = randomBytes(32)

/** A blocking verdict, and the index of the text. */
interface Block {
  readonly index: number
  readonly verdict: Verdict
}

/** Asks a judge model about windows of a text, and caches its answers. */
export class WindowJudge {
  readonly #judgeModel: JudgeModel
  readonly #host: GuardHost

  constructor(judgeModel: JudgeModel, host: GuardHost) {
    this.#judgeModel = judgeModel
    this.#host = host
  }

  /**
   * The first block in any window. All windows are judged at the same time. A failure of one window does not prevent a
   * block by another.
   * @throws the failure of a window, when no window blocks
   */
  async firstBlock(
    windows: readonly Window[],
    model: string,
    context: GuardContext,
  ): Promise<Block | undefined> {
    const asked = windows.map((window) => this.#judge(window, model, context))
    const blocks = asked.map((one) =>
      one.then((found) => found ?? Promise.reject(new Error('none'))),
    )
    try {
      return await Promise.any(blocks)
    } catch {
      await Promise.all(asked)
      return undefined
    }
  }

  async #judge(window: Window, model: string, context: GuardContext): Promise<Block | undefined> {
    const { index, input } = window
    const key = this.#keyOf(window, model, context)
    const known = this.#host.cache.get(context, key) as readonly RuleMatch[] | undefined
    const matches = known ?? (await this.#ask(input, model, context))
    if (!known) this.#host.cache.set(context, key, matches, REMEMBERED_SECONDS)
    const [match] = matches
    return match && { index, verdict: { action: 'block', rule: match.rule, score: match.score } }
  }

  /** Asks once more after an unusable answer, because models do not always answer the same. */
  async #ask(
    input: Window['input'],
    model: string,
    context: GuardContext,
  ): Promise<readonly RuleMatch[]> {
    const client: ModelClient = {
      model,
      signal: context.signal,
      ask: (request) => this.#host.askModel(model, request, context),
    }
    try {
      return await this.#judgeModel.judge(input, context.rules, client)
    } catch (error) {
      if (!(error instanceof InvalidAnswer) || context.signal.aborted) throw error
      return this.#judgeModel.judge(input, context.rules, client)
    }
  }

  /** Covers everything that the answer depends on. */
  #keyOf({ input }: Window, model: string, { origin, rules }: GuardContext): string {
    const all = [this.#judgeModel.id, model, origin, rules.scopes, rules.deny, input]
    return createHmac('sha256', secret).update(JSON.stringify(all)).digest('base64url')
  }
}

/**
 * The request is larger than the guard judges. Nothing of it is judged, because skipping the middle would be a
 * loophole. The gateway recognises the class by its name and blames the text, not the guard.
 */
class TooLarge extends Error {
  override readonly name = 'TooLarge'
}
