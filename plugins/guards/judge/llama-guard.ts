/**
 * Llama Guard 3 and 4: a conversation whose last message is judged; `safe`, or `unsafe` and codes of hazards on the next
 * line. Its taxonomy is of harm, not of topics: a harmless question about code or medicine is safe to it.
 */
import type { Category, ChatInput, RuleRef } from '../../../src/plugin.ts'
import { InvalidAnswer, joined, textOf, type Brain, type Hit, type Material } from './brain.ts'

const VERSION = 'llama-guard/1'
const MOST_TOKENS = 40
const CODES = Array.from({ length: 14 }, (_, i) => `S${i + 1}`)
/** Specialised advice: which kind, it does not say. */
const ADVICE: readonly Category[] = ['medical', 'legal', 'financial-advice']
const ADVICE_CODE = 'S6'
const PRIVACY_CODE = 'S7'

/** @param harms whether hazards of its own block too, as `x:llama-guard/<code>` */
export function llamaGuardBrain(readsImages: boolean, harms: boolean): Brain {
  const own = harms ? [...CODES, 'unsafe'].map((code) => `x:llama-guard/${code}` as const) : []
  return {
    id: `${VERSION}${harms ? '+harms' : ''}`,
    answers: [
      ...ADVICE.map((category) => `deny:${category}` as const),
      'deny:personal-data',
      ...own,
    ],
    readsImages,
    judges: ({ deny }) =>
      harms || deny.some((category) => ADVICE.includes(category) || category === 'personal-data'),
    async judge(material, { deny }, { ask }) {
      const codes = codesIn(textOf(await ask(requestOf(material))))
      if (!codes) return []
      if (codes.length === 0 && !harms) throw new InvalidAnswer('it does not say what is unsafe')
      const named = codes.length > 0 ? codes : ['unsafe']
      return named.flatMap((code): Hit[] => {
        const rule =
          deniedAs(code, deny) ?? (harms ? (`x:llama-guard/${code}` as const) : undefined)
        return rule ? [{ rule, score: 1 }] : []
      })
    },
  }
}

/** The last message is judged; roles take turns, and there is no system message. */
function requestOf({ side, texts, images, before, question }: Material): ChatInput {
  const text = joined(texts)
  const shown = images.map((url) => ({ type: 'image_url', image_url: { url } }))
  const asked = side === 'input' ? text : question || '(not shown)'
  const content = shown.length > 0 ? [{ type: 'text', text: asked }, ...shown] : asked
  const answer = joined([...before, { from: 'assistant', text }])
  return {
    messages: [
      { role: 'user', content },
      ...(side === 'output' ? [{ role: 'assistant' as const, content: answer }] : []),
    ],
    temperature: 0,
    max_completion_tokens: MOST_TOKENS,
  }
}

/** Codes of hazards; nothing if it is safe. @throws InvalidAnswer for anything that is neither */
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
