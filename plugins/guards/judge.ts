/**
 * A guard that asks a model whether a text breaks a rule: scopes, categories, and attempts to manipulate the judge. The
 * judge model has the weaknesses of the models it guards. Its answer therefore counts only if it proves that the model
 * followed the instructions; any other answer is a fault of this guard, never a pass. Safety models can be used instead
 * for the rules that they know.
 */
import * as v from 'valibot'
import {
  defineGuard,
  type Guard,
  type GuardContext,
  type TextItem,
  type Verdict,
  type GuardHost,
} from '../../src/plugin.ts'
import {
  type JudgeModel,
  type JudgeInput,
  type Utterance,
  InvalidAnswer,
  type ModelClient,
  type RuleMatch,
} from './judge/judge-model.ts'
import { graniteGuardianJudge, qwen3GuardJudge, shieldGemmaJudge } from './judge/label-models.ts'
import { llamaGuardJudge } from './judge/llama-guard.ts'
import { chatModelJudge } from './judge/chat-model.ts'
import { moderationJudge } from './judge/moderation.ts'
import { policyReasonerJudge } from './judge/policy-reasoner.ts'
import { createHmac, randomBytes } from 'node:crypto'
import { sanitize } from './judge/sanitize.ts'

const PASS: Verdict = { action: 'pass' }
const NOT_JUDGED: Verdict = { action: 'abstain', why: 'not-applicable' }
const UNREADABLE: Verdict = { action: 'abstain', why: 'unscannable' }

const model = v.pipe(v.string(), v.minLength(1))
/** Whether the model reads images. If not, the guard abstains from texts with images. */
const images = v.optional(v.boolean(), false)
/** Whether the model's own harm categories block too, as rules of this guard. */
const harms = v.optional(v.boolean(), false)

const options = v.variant('kind', [
  v.strictObject({
    /** Any chat model that follows instructions. */
    kind: v.optional(v.literal('model'), 'model'),
    /** Catalog id. The model that a policy names wins. */
    model: v.optional(model),
    images,
    /** Whether each question contains passages with a known answer. */
    decoy: v.optional(v.boolean(), true),
  }),
  v.strictObject({ kind: v.literal('policy-reasoner'), model: v.optional(model) }),
  v.strictObject({ kind: v.literal('llama-guard'), model, images, harms }),
  v.strictObject({ kind: v.literal('shieldgemma'), model }),
  v.strictObject({ kind: v.literal('granite-guardian'), model }),
  v.strictObject({ kind: v.literal('qwen3guard'), model, harms }),
  v.strictObject({
    kind: v.literal('moderation'),
    apiKey: v.pipe(v.string(), v.minLength(1)),
    baseURL: v.optional(v.pipe(v.string(), v.url()), 'https://api.openai.com/v1'),
    model: v.optional(model, 'omni-moderation-latest'),
  }),
])
type Options = v.InferOutput<typeof options>

export default defineGuard({
  name: 'judge',
  options,
  setup(chosen, host): Guard {
    const judgeModel = createJudge(chosen)
    const windowJudge = new WindowJudge(judgeModel, host)
    const isGeneral = chosen.kind === 'model' || chosen.kind === 'policy-reasoner'
    const asks = (named: string | undefined) => (isGeneral ? named : undefined) ?? chosen.model
    const modelFor = (context: GuardContext): string => {
      const id = asks(context.judgeModel)
      if (id === undefined)
        throw new Error('no model is named, neither by the policy nor by the options')
      return id
    }
    const blockIn = async (windows: readonly Window[], context: GuardContext) =>
      windows.length === 0 ? undefined : windowJudge.firstBlock(windows, modelFor(context), context)

    function createJudge(wanted: Options): JudgeModel {
      switch (wanted.kind) {
        case 'model':
          return chatModelJudge(wanted.images, wanted.decoy)
        case 'policy-reasoner':
          return policyReasonerJudge()
        case 'llama-guard':
          return llamaGuardJudge(wanted.images, wanted.harms)
        case 'shieldgemma':
          return shieldGemmaJudge()
        case 'granite-guardian':
          return graniteGuardianJudge()
        case 'qwen3guard':
          return qwen3GuardJudge(wanted.harms)
        case 'moderation':
          return moderationJudge(wanted, host)
      }
    }

    return {
      enforces: judgeModel.enforces,
      execution: 'remote',
      // The service for moderation is no model of the catalog.
      ...(chosen.kind !== 'moderation' && { asks }),
      questions: (characters) => windowsFor(characters) * (judgeModel.questions ?? 1),
      async checkInput(items, context) {
        if (!judgeModel.appliesTo(context.rules)) return items.map(() => NOT_JUDGED)
        const block = await blockIn(windowsOf(items, judgeModel.readsImages), context)
        return items.map((item: TextItem, index) => {
          if (block) return index === block.index ? block.verdict : PASS
          if (isUnreadable(item, judgeModel.readsImages)) return UNREADABLE
          return isJudged(item) ? PASS : NOT_JUDGED
        })
      },
      async checkOutput(item, context) {
        if (!judgeModel.appliesTo(context.rules) || item.text.trim() === '') return NOT_JUDGED
        return (await blockIn(windowsOfAnswer(item), context))?.verdict ?? PASS
      },
    }
  },
})

// Selects what is judged and what is shown as context, and splits both into questions of limited size.

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
interface Window {
  readonly input: JudgeInput
  /** Index of the last judged text. */
  readonly index: number
}

/** Whether a text is judged and not only shown. */
function isJudged({ channel, current, role, text }: TextItem): boolean {
  return current && JUDGED.has(channel) && !(role === 'system') && text.trim() !== ''
}

/** Whether a text has media that the judge model cannot read. */
function isUnreadable({ media = [] }: TextItem, readsImages: boolean): boolean {
  return media.some(({ kind, url }) => !(readsImages && kind === 'image' && url))
}

/** How many windows a text of so many characters has, as far as the guard judges it. */
function windowsFor(characters: number): number {
  return Math.min(windowsIn(characters), MAX_WINDOWS)
}

/**
 * Questions about the judged texts, in order.
 * @throws TooLarge for more texts or images than the guard judges
 */
function windowsOf(items: readonly TextItem[], readsImages: boolean): Window[] {
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
function windowsOfAnswer({ text, channel, context, role }: TextItem): Window[] {
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
  const parts: IndexedUtterance[] = []
  let at = 0
  for (const piece of pieces) {
    const { length } = piece.text
    const from = codePointStart(piece.text, Math.max(0, start - at))
    const to = codePointStart(piece.text, Math.min(length, end - at))
    if (from < to) parts.push({ ...piece, text: piece.text.slice(from, to) })
    at += length
  }
  return parts
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
class WindowJudge {
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
    const verdicts = windows.map((window) => this.#judge(window, model, context))
    const blocks = verdicts.map((one) =>
      one.then((block) => block ?? Promise.reject(new Error('none'))),
    )
    try {
      return await Promise.any(blocks)
    } catch {
      await Promise.all(verdicts)
      return undefined
    }
  }

  async #judge(window: Window, model: string, context: GuardContext): Promise<Block | undefined> {
    const { index, input } = window
    const key = this.#keyOf(window, model, context)
    const cached = this.#host.cache.get(context, key) as readonly RuleMatch[] | undefined
    const matches = cached ?? (await this.#ask(input, model, context))
    if (!cached) this.#host.cache.set(context, key, matches, REMEMBERED_SECONDS)
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
