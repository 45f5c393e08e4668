/**
 * Llama Guard 3 and 4. The model judges the last message of a conversation and answers `safe`, or `unsafe` with hazard
 * codes on the next line. It detects harm, not topics: a harmless question about code or medicine is safe.
 */
import type { Category, ChatInput, RuleRef } from '../../../src/plugin.ts'
import {
  InvalidAnswer,
  joined,
  textOf,
  type JudgeModel,
  type RuleMatch,
  type JudgeInput,
} from './judge-model.ts'

const VERSION = 'llama-guard/1'
const MAX_TOKENS = 40
const CODES = Array.from({ length: 14 }, (_, i) => `S${i + 1}`)
/** Specialised advice. The code does not tell which kind. */
const ADVICE: readonly Category[] = ['medical', 'legal', 'financial-advice']
const ADVICE_CODE = 'S6'
const PRIVACY_CODE = 'S7'

/** Llama Guard. @param harms whether its own hazards block too, as `x:llama-guard/<code>` */
export function llamaGuardJudge(readsImages: boolean, harms: boolean): JudgeModel {
  const own = harms ? [...CODES, 'unsafe'].map((code) => `x:llama-guard/${code}` as const) : []
  return {
    id: `${VERSION}${harms ? '+harms' : ''}`,
    enforces: [
      ...ADVICE.map((category) => `deny:${category}` as const),
      'deny:personal-data',
      ...own,
    ],
    readsImages,
    appliesTo: ({ deny }) =>
      harms || deny.some((category) => ADVICE.includes(category) || category === 'personal-data'),
    async judge(input, { deny }, { ask }) {
      const codes = codesIn(textOf(await ask(requestOf(input))))
      if (!codes) return []
      if (codes.length === 0 && !harms) throw new InvalidAnswer('it does not say what is unsafe')
      const named = codes.length > 0 ? codes : ['unsafe']
      return named.flatMap((code): RuleMatch[] => {
        const rule =
          deniedAs(code, deny) ?? (harms ? (`x:llama-guard/${code}` as const) : undefined)
        return rule ? [{ rule, score: 1 }] : []
      })
    },
  }
}

/** The model judges the last message. Roles alternate, and there is no system message. */
function requestOf({ side, texts, images, before, question }: JudgeInput): ChatInput {
  const text = joined(texts)
  const shown = images.map((url) => ({ type: 'image_url', image_url: { url } }))
  const userText = side === 'input' ? text : question || '(not shown)'
  const content = shown.length > 0 ? [{ type: 'text', text: userText }, ...shown] : userText
  const answer = joined([...before, { from: 'assistant', text }])
  return {
    messages: [
      { role: 'user', content },
      ...(side === 'output' ? [{ role: 'assistant' as const, content: answer }] : []),
    ],
    temperature: 0,
    max_completion_tokens: MAX_TOKENS,
  }
}

/** Hazard codes; undefined for a safe text. @throws InvalidAnswer for any other answer */
function codesIn(text: string): string[] | undefined {
  const [verdict = '', codes = ''] = text.toLowerCase().split(/\s*\n\s*/)
  if (verdict === 'safe') return undefined
  if (verdict !== 'unsafe') throw new InvalidAnswer('it says neither safe nor unsafe')
  const named = codes.split(',').map((code) => code.trim().toUpperCase())
  return named.filter((code) => CODES.includes(code))
}

function deniedAs(code: string, deny: readonly Category[]): RuleRef | undefined {
  if (code === PRIVACY_CODE && deny.includes('personal-data')) return 'deny:personal-data'
  const advice = code === ADVICE_CODE ? ADVICE.find((one) => deny.includes(one)) : undefined
  return advice && `deny:${advice}`
}
