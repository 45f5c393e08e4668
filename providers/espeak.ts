/**
 * Speech by eSpeak NG on this machine: robotic, in a hundred languages, for nothing. One process speaks one text.
 * https://github.com/espeak-ng/espeak-ng
 */
import * as v from 'valibot'
import { availableParallelism } from 'node:os'
import { defineProvider } from '../src/plugin.ts'
import { BoundedQueue } from './espeak/line.ts'
import { listVoices, say } from './espeak/process.ts'
import { voiceOf, wordsPerMinute } from './espeak/voices.ts'

const options = v.strictObject({
  /** The program, by its name or path. */
  command: v.optional(v.pipe(v.string(), v.nonEmpty()), 'espeak-ng'),
  /** How many texts are spoken at once; others wait. Four for each processor without it: most wait for their readers. */
  processes: v.optional(v.pipe(v.number(), v.integer(), v.minValue(1))),
  /** Names of voices that clients use, and eSpeak's, such as `de+f2`. */
  voices: v.optional(v.record(v.string(), v.string()), {}),
})

const deploymentOptions = v.strictObject({
  /** Which language voices that are no language speak, such as `de` or `en-gb`. */
  language: v.optional(v.pipe(v.string(), v.nonEmpty()), 'en-us'),
})
type DeploymentOptions = v.InferOutput<typeof deploymentOptions>

export default defineProvider({
  name: 'espeak',
  options,
  deploymentOptions,
  async setup({ command, processes = 4 * availableParallelism(), voices }, { fail }) {
    const known = await listVoices(command)
    const line = new BoundedQueue(processes)
    return {
      async speech({ input, options, signal }) {
        const { response_format: format } = input
        if (format !== 'wav' && format !== 'pcm') {
          throw fail(
            'bad_request',
            `The model cannot make sound in the format ${format}. Ask for wav or pcm.`,
            { code: 'unsupported_value', param: 'response_format' },
          )
        }
        const { language } = options as DeploymentOptions
        const voice = voiceOf(input.voice, language, voices, known, fail)
        const leave = await line.enter(signal, () =>
          fail('overloaded', 'Too many texts are waiting to be spoken.'),
        )
        const speed = wordsPerMinute(input.speed ?? 1)
        return say({ command, voice, speed, text: input.input }, signal, leave, fail)
      },
    }
  },
})
