/**
 * Reasoning that a model does not have: agents ask for it on every call and send back the thoughts of other models, and a vendor
 * refuses both. A refused request is asked again without what it was refused for, and what was learned is remembered.
 */
import type { ChatInput, ChatMessage, Host, Provider, Reasoning } from '../../src/plugin.ts'

type Chat = NonNullable<Provider['chat']>
type Effort = NonNullable<Reasoning['effort']>

/** What was learned about a model. An absent member was not learned. */
interface Traits {
  /** It takes no hints. */
  readonly reasons?: false
  /** It takes no thoughts of earlier turns. */
  readonly replays?: false
  readonly summaries?: false
  /** The efforts that it has. */
  readonly efforts?: readonly Effort[]
  /** When this was learned, ms since epoch. */
  readonly at: number
}

/** A request that was changed, and what the refusal tells of the model. */
interface Remedy {
  readonly input: ChatInput
  readonly learned?: Omit<Traits, 'at'>
  /** What is left out, for the operator. */
  readonly what: string
}

/** What a failure says of itself, as far as it can be read here. */
interface Refusal {
  readonly failure?: string
  readonly code?: string | null
  readonly param?: string | null
  readonly message: string
}

const SCALE: readonly Effort[] = ['none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max']
/** Requests that are asked again for one call. */
const MAX_REPEATS = 2
/** Models about which something is remembered. */
const MAX_MODELS = 1000
const REMEMBERED_MS = 86_400_000

/** Members with which vendors are asked to reason, and the words for it. */
const HINT =
  /\breasoning(_effort|_format|\.effort)?\b|\b(enable_)?thinking(_budget|_config|config)?\b|\bthinkingBudget\b|\bbudget_tokens\b|\bchat_template_kwargs\b|\bprompt_mode\b|\bthink\b/i
/** Places of replayed thoughts, and the words for them. */
const THOUGHTS =
  /\b(messages|input|contents)\b[^ ]*\.?[^ ]*(reasoning|thinking|thought)|\breasoning_(content|details|text)\b|\bthinking (block|part)|\breasoning (input|item)|\bthought_?signature|\bthinking_signature|\bextra_content\b|\bprovider_specific_fields\b/i
/** Thoughts that another organization has encrypted, or that were changed. */
const SIGNATURE =
  /invalid[^.]{0,40}(signature|encrypted)|(signature|encrypted.content)[^.]{0,60}(invalid|could not|cannot|not valid|verif)/i
/** A refusal of a request that lacks something: nothing can be left out of it. */
const LACKING =
  /\bmust be (passed|provided|included|sent)|\bis (required|missing)\b|\bare required\b/i
/** A refusal of a number of tokens. */
const SIZE =
  /greater than|less than|at least|at most|out of range|max_(completion_|output_)?tokens/i
/** What has to do with the rest of a request, and not with the model. */
const OF_REQUEST = /tool_choice|\bmessages[.[]/
/** Words before the levels that a vendor has. */
const OFFERED = /supported values?|possible values?|allowed|valid values?|one of|must be|expected/gi

/**
 * Wraps the chat of a provider. A repeat belongs to the attempt of the request: it has its deadline, and nothing is billed for
 * what was refused.
 */
export function withRemedies({ log }: Pick<Host, 'log'>, chat: Chat): Chat {
  const traitsByModel = new Map<string, Traits>()
  return (request) => {
    const { model, dropped } = request
    const first = request.input
    if (!first.reasoning && !hasThoughts(first)) return chat(request)
    const input = applied(first, traitsOf(traitsByModel, model))
    const tell = (last: ChatInput) => {
      if (first.reasoning && !last.reasoning) dropped?.('reasoning')
      if (last.messages !== first.messages) dropped?.('thoughts')
    }
    const attempt = async (current: ChatInput, repeats: number): ReturnType<Chat> => {
      tell(current)
      try {
        return await chat(current === first ? request : { ...request, input: current })
      } catch (error) {
        const remedy = repeats < MAX_REPEATS ? remedyFor(error as Refusal, current) : undefined
        if (!remedy) throw error
        if (remedy.learned) {
          learn(traitsByModel, model, remedy.learned)
          log.info(
            `${model} refuses ${remedy.what}: it is left out. ` +
              'List its capabilities without REASONING to avoid the first refusal.',
          )
        }
        return attempt(remedy.input, repeats + 1)
      }
    }
    return attempt(input, 0)
  }
}

/** The request without what the model has refused before. */
function applied(input: ChatInput, traits: Traits | undefined): ChatInput {
  if (!traits) return input
  let { reasoning } = input
  if (traits.reasons === false) reasoning = undefined
  if (reasoning?.summary !== undefined && traits.summaries === false)
    reasoning = withoutSummary(reasoning)
  if (reasoning?.effort && traits.efforts)
    reasoning = { ...reasoning, effort: nearest(reasoning.effort, traits.efforts) }
  const whole = reasoning === input.reasoning ? input : withReasoning(input, reasoning)
  return traits.replays === false ? withoutThoughts(whole) : whole
}

/** What to leave out of a request that was refused; undefined where nothing of this kind was the reason. */
function remedyFor(error: Refusal, input: ChatInput): Remedy | undefined {
  if (error?.failure !== 'bad_request') return undefined
  const about = `${error.param ?? ''} ${error.code ?? ''} ${error.message}`
  if (LACKING.test(error.message) || SIZE.test(error.message)) return undefined
  const { reasoning } = input
  const efforts = reasoning?.effort && levelsIn(error.message, reasoning.effort)
  if (efforts) {
    const next = { ...reasoning, effort: nearest(reasoning.effort!, efforts) }
    if (next.effort !== reasoning.effort)
      return { input: withReasoning(input, next), learned: { efforts }, what: 'this effort' }
  }
  if (reasoning?.summary !== undefined && /summar/i.test(about)) {
    const next = withReasoning(input, withoutSummary(reasoning))
    return { input: next, learned: { summaries: false }, what: 'reasoning.summary' }
  }
  const thoughts = hasThoughts(input)
  // Another conversation may be right.
  if (thoughts && SIGNATURE.test(about)) return { input: withoutThoughts(input), what: '' }
  if (thoughts && THOUGHTS.test(about)) {
    const learned = { replays: false } as const
    return { input: withoutThoughts(input), learned, what: 'thoughts of earlier turns' }
  }
  if (reasoning && HINT.test(about)) {
    const what = HINT.exec(about)![0]
    const next = withReasoning(input, undefined)
    // A model that always reasons refuses to be told not to, and one that reasons refuses some requests while it does.
    const isOff = reasoning.enabled === false || reasoning.effort === 'none'
    return isOff || OF_REQUEST.test(about)
      ? { input: next, what }
      : { input: next, learned: { reasons: false }, what }
  }
  return undefined
}

/** The levels that a refusal of an effort names, lowest first; undefined for less than two. */
function levelsIn(message: string, refused: Effort): readonly Effort[] | undefined {
  const last = [...message.matchAll(OFFERED)].at(-1)
  const text = last ? message.slice(last.index) : message
  const named = SCALE.filter((level) => new RegExp(`\\b${level}\\b`).test(text))
  const levels = last ? named : named.filter((level) => level !== refused)
  return levels.length >= 2 ? levels : undefined
}

/** The nearest level; the higher one of two equally near. */
function nearest(effort: Effort, levels: readonly Effort[]): Effort {
  const wanted = SCALE.indexOf(effort)
  const distance = (level: Effort) => Math.abs(SCALE.indexOf(level) - wanted)
  return levels.reduce((best, level) => (distance(level) <= distance(best) ? level : best))
}

function withReasoning(input: ChatInput, reasoning?: Reasoning): ChatInput {
  const { reasoning: _, ...rest } = input
  return (reasoning ? { ...rest, reasoning } : rest) as ChatInput
}

function withoutSummary(reasoning: Reasoning): Reasoning | undefined {
  const { summary: _, ...rest } = reasoning
  return Object.keys(rest).length > 0 ? rest : undefined
}

function hasThoughts({ messages }: ChatInput): boolean {
  return messages.some(isThoughtful)
}

function isThoughtful({ role, reasoning, reasoning_content, reasoning_details }: ChatMessage) {
  return role === 'assistant' && Boolean(reasoning || reasoning_content || reasoning_details)
}

function withoutThoughts(input: ChatInput): ChatInput {
  if (!hasThoughts(input)) return input
  const messages = input.messages.map((message): ChatMessage => {
    if (!isThoughtful(message)) return message
    const { reasoning: _, reasoning_content: _text, reasoning_details: _parts, ...rest } = message
    return rest
  })
  return { ...input, messages }
}

function traitsOf(traitsByModel: Map<string, Traits>, model: string): Traits | undefined {
  const traits = traitsByModel.get(model)
  if (traits && Date.now() - traits.at > REMEMBERED_MS) traitsByModel.delete(model)
  return traitsByModel.get(model)
}

function learn(
  traitsByModel: Map<string, Traits>,
  model: string,
  learned: Omit<Traits, 'at'>,
): void {
  const traits = { ...traitsOf(traitsByModel, model), ...learned, at: Date.now() }
  traitsByModel.delete(model)
  traitsByModel.set(model, traits)
  if (traitsByModel.size > MAX_MODELS) traitsByModel.delete(traitsByModel.keys().next().value!)
}
