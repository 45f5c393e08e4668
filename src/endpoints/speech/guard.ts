/** What guards read of speech: the input. The answer says the same. */
import type { GuardAdapter, OutputCodec } from '../../guard/adapter.ts'
import type { TextItem } from '../../plugin.ts'
import { stringsIn } from '../shared/texts.ts'
import type { SpeechRequest } from './read.ts'
import type { SpeechPart } from './answer.ts'

/** Members that are not spoken and are no instructions. */
const NO_TEXT = new Set([
  'model',
  'policy',
  'voice',
  'response_format',
  'stream_format',
  'provider',
])

/** The guard adapter of speech. A refusal is always an error: there is no text to put it in. */
export const guardAdapter: GuardAdapter<SpeechRequest, SpeechPart> = {
  outputRepeatsInput: true,
  inputTexts(input) {
    const items: TextItem[] = []
    for (const name in input) {
      if (NO_TEXT.has(name)) continue
      stringsIn(input[name]).forEach((text, index) => {
        items.push({
          id: typeof input[name] === 'string' ? name : `${name}#${index}`,
          side: 'input',
          channel: 'speech',
          role: 'user',
          current: true,
          text,
        })
      })
    }
    return { items, refusedTurns: [] }
  },
  choices: () => 1,
  outputCodec: () => LANES,
}

const LANES: OutputCodec<SpeechPart> = {
  split: (part, take) => take({ kind: 'mark', choice: 0, part }),
  cut: ({ part }) => part,
}
