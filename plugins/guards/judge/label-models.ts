/**
 * Models that answer with labels: ShieldGemma and Granite Guardian with yes or no, Qwen3Guard with categories. They
 * detect harm, not topics, so most of their rules are rules of this guard.
 */
import type { ChatInput, ChatCompletion, RuleRef } from '../../../src/plugin.ts'
import {
  InvalidAnswer,
  joined,
  textOf,
  type JudgeModel,
  type RuleMatch,
  type JudgeInput,
} from './judge-model.ts'

/** ShieldGemma's principles. Each is a separate question. */
const PRINCIPLES = {
  dangerous:
    'No Dangerous Content: nothing that helps to harm oneself or others, such as making weapons, or encourages it.',
  harassment:
    'No Harassment: nothing malicious, intimidating, bullying or abusive that is aimed at another person.',
  hate: 'No Hate Speech: nothing that attacks or dehumanises people for what they are born as or belong to.',
  sexual:
    'No Sexually Explicit Information: no descriptions of sexual acts that are meant to arouse.',
} as const
const FLAGGED = 0.5

/** ShieldGemma. */
export function shieldGemmaJudge(): JudgeModel {
  const principles = Object.entries(PRINCIPLES)
  return {
    id: 'shieldgemma/1',
    enforces: principles.map(([name]) => `x:shieldgemma/${name}` as const),
    questions: principles.length,
    readsImages: false,
    appliesTo: () => true,
    async judge(input, _rules, { ask }) {
      const matches = principles.map(async ([name, principle]): Promise<RuleMatch> => {
        const completion = await ask(principleRequest(input, principle))
        return { rule: `x:shieldgemma/${name}`, score: yesIn(completion) }
      })
      return byScore((await Promise.all(matches)).filter(({ score }) => score >= FLAGGED))
    },
  }
}

/** Granite Guardian. */
export function graniteGuardianJudge(): JudgeModel {
  return {
    id: 'granite-guardian/1',
    enforces: ['x:granite-guardian/harm'],
    readsImages: false,
    appliesTo: () => true,
    async judge(input, _rules, { ask }) {
      const completion = await ask({
        ...turns(input),
        temperature: 0,
        max_completion_tokens: 60,
        // The template's parameter, for hosts that pass it on. `harm` is also the default.
        chat_template_kwargs: { guardian_config: { risk_name: 'harm' } },
      })
      const score = yesIn(completion)
      return score >= FLAGGED ? [{ rule: 'x:granite-guardian/harm', score }] : []
    },
  }
}

/** Qwen3Guard's categories, as names of rules. */
const LABELS: Readonly<Record<string, string>> = {
  violent: 'violent',
  'non-violent illegal acts': 'illegal-acts',
  'sexual content or sexual acts': 'sexual',
  pii: 'pii',
  'suicide & self-harm': 'self-harm',
  'unethical acts': 'unethical',
  'politically sensitive topics': 'political',
  'copyright violation': 'copyright',
  jailbreak: 'jailbreak',
}
const CONTROVERSIAL = 0.5

/** Qwen3Guard. @param harms whether its own categories block too, as `x:qwen3guard/<label>` */
export function qwen3GuardJudge(harms: boolean): JudgeModel {
  const own = harms
    ? [...Object.values(LABELS), 'unsafe'].map((name) => `x:qwen3guard/${name}` as const)
    : []
  return {
    id: `qwen3guard/1${harms ? '+harms' : ''}`,
    enforces: ['deny:personal-data', ...own],
    readsImages: false,
    appliesTo: ({ deny }) => harms || deny.includes('personal-data'),
    async judge(input, { deny }, { ask }) {
      const request = { ...turns(input), temperature: 0, max_completion_tokens: 128 }
      const labels = labelsIn(textOf(await ask(request)))
      if (!labels) return []
      return labels.names.flatMap((name): RuleMatch[] => {
        const rule: RuleRef | undefined =
          name === 'pii' && deny.includes('personal-data')
            ? 'deny:personal-data'
            : harms
              ? `x:qwen3guard/${name}`
              : undefined
        return rule ? [{ rule, score: labels.score }] : []
      })
    },
  }
}

/** The names of the categories; undefined for a safe text. @throws InvalidAnswer */
function labelsIn(text: string): { readonly names: string[]; readonly score: number } | undefined {
  const verdict = /^Safety:\s*(Safe|Unsafe|Controversial)\s*$/im.exec(text)?.[1]?.toLowerCase()
  if (!verdict) throw new InvalidAnswer('it does not say whether it is safe')
  if (verdict === 'safe') return undefined
  const line = /^Categories:(.*)$/im.exec(text)?.[1]?.toLowerCase() ?? ''
  const names = line.split(',').flatMap((label) => LABELS[label.trim()] ?? [])
  const score = verdict === 'unsafe' ? 1 : CONTROVERSIAL
  return { names: names.length > 0 ? names : ['unsafe'], score }
}

/** The model judges the last message. */
function turns({ side, texts, before, question }: JudgeInput): Pick<ChatInput, 'messages'> {
  const text = joined(texts)
  if (side === 'input') return { messages: [{ role: 'user', content: text }] }
  const answer = joined([...before, { from: 'assistant', text }])
  return {
    messages: [
      { role: 'user', content: question || '(not shown)' },
      { role: 'assistant', content: answer },
    ],
  }
}

/** ShieldGemma's prompt. The markers belong to its template; sanitized texts cannot contain them. */
function principleRequest(input: JudgeInput, principle: string): ChatInput {
  const { side, texts, question } = input
  const text = joined(texts)
  const shown =
    side === 'input'
      ? `Human Question: ${text}`
      : `Human Question: ${question || '(not shown)'}\n\nChatbot Response: ${text}`
  const judged = side === 'input' ? 'Human Question' : 'Chatbot Response'
  const content = [
    `You are a policy expert who decides whether the ${judged} violates the safety principle below.`,
    `<start_of_turn>\n${shown}\n<end_of_turn>`,
    `Our safety principle is defined in the following:\n* ${principle}`,
    `Does the ${judged} violate the above principle? Your answer must start with 'Yes' or 'No'.`,
  ].join('\n\n')
  return {
    messages: [{ role: 'user', content }],
    temperature: 0,
    max_completion_tokens: 1,
    logprobs: true,
    top_logprobs: 5,
  }
}

/**
 * Score of a yes, from the probabilities of yes and no where the host reports them.
 * @throws InvalidAnswer for any other answer
 */
function yesIn(completion: ChatCompletion): number {
  const text = textOf(completion)
    .replace(/<\/?score>/gi, ' ')
    .trim()
  const word = /^(yes|no)\b/i.exec(text)?.[1]?.toLowerCase()
  if (!word) throw new InvalidAnswer('it says neither yes nor no')
  const top: unknown = completion.choices[0]?.logprobs?.content?.[0]?.top_logprobs
  const chance = (wanted: string) =>
    (Array.isArray(top) ? top : [])
      .filter(({ token }) => String(token).trim().toLowerCase() === wanted)
      .reduce((sum, { logprob }) => sum + Math.exp(Number(logprob)), 0)
  const [yes, no] = [chance('yes'), chance('no')]
  return yes + no > 0 ? yes / (yes + no) : Number(word === 'yes')
}

function byScore(matches: readonly RuleMatch[]): readonly RuleMatch[] {
  return matches.toSorted((a, b) => b.score - a.score)
}
