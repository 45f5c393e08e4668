/** What guards read of speech: the input. The answer says the same. */
import type { GuardAdapter, OutputCodec } from '../../guard/adapter.ts'
import { itemOf, labelItems, oneTurnGuard, otherItems } from '../shared/guard.ts'
import type { SpeechRequest } from './read.ts'
import type { SpeechPart } from './answer.ts'

/** Members that are read separately, or whose values the API lists. */
const READ_SEPARATELY = new Set(['input', 'voice', 'response_format', 'stream_format'])

/** The guard adapter of speech. */
export const guardAdapter: GuardAdapter<SpeechRequest, SpeechPart> = {
  ...oneTurnGuard<SpeechRequest, SpeechPart>(
    (input) => [
      itemOf('input', 'speech', input.input),
      ...labelItems('voice', input.voice),
      ...otherItems(input, READ_SEPARATELY, 'speech'),
    ],
    () => LANES,
  ),
  outputRepeatsInput: true,
}

const LANES: OutputCodec<SpeechPart> = {
  split: (part, take) => take({ kind: 'mark', choice: 0, part }),
  cut: ({ part }) => part,
}
