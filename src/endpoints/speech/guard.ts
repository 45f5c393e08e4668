/** Speech as guards see it: words go in, and are what comes out (guard design, 1.3). */
import type { GuardAdapter, OutputCodec } from '../../guard/adapter.ts'
import type { TextItem } from '../../plugin.ts'
import { stringsIn } from '../shared/texts.ts'
import type { SpeechRequest } from './read.ts'
import type { SpeechPart } from './answer.ts'

/** Members whose strings nobody says and nobody obeys. */
const SILENT = new Set(['model', 'policy', 'voice', 'response_format', 'stream_format', 'provider'])

/** The guard side of speech. There is no way to say "no" but an error. */
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
