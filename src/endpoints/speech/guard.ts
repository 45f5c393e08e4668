/** What guards read of speech: the input. The answer says the same. */
import type { GuardAdapter, OutputCodec } from '../../guard/adapter.ts'
import type { TextItem } from '../../plugin.ts'
import { stringsIn } from '../shared/texts.ts'
import type { SpeechRequest } from './read.ts'
import type { SpeechPart } from './answer.ts'

/** Members that are not spoken and are no instructions. */
const SILENT = new Set(['model', 'policy', 'voice', 'response_format', 'stream_format', 'provider'])

/** The guard adapter of speech. A refusal is always an error: there is no text to put it in. */
export const guarding: GuardAdapter<SpeechRequest, SpeechPart> = {
  outputRepeatsInput: true,
  inputTexts(input) {
    const units: TextItem[] = []
    for (const name in input) {
      if (SILENT.has(name)) continue
      stringsIn(input[name]).forEach((text, index) => {
        units.push({
          id: typeof input[name] === 'string' ? name : `${name}#${index}`,
          side: 'input',
          channel: 'speech',
          role: 'user',
          current: true,
          text,
        })
      })
    }
    return { items: units, refusedTurns: [] }
  },
  choices: () => 1,
  outputCodec: () => LANES,
}

const LANES: OutputCodec<SpeechPart> = {
  split: (part, take) => take({ kind: 'mark', choice: 0, part }),
  cut: ({ part }) => part,
}
