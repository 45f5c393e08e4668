/**
 * Speech by eSpeak NG on this machine: free of charge, robotic, about a hundred languages. One process speaks one text.
 * https://github.com/espeak-ng/espeak-ng
 */
import * as v from 'valibot'
import { availableParallelism } from 'node:os'
import { defineProvider } from '../src/plugin.ts'
import { BoundedQueue } from './espeak/bounded-queue.ts'
import { listLanguages, speak } from './espeak/process.ts'
import { resolveVoice, wordsPerMinute } from './espeak/voices.ts'
import { voicesOption } from './shared/options.ts'

const options = v.strictObject({
  /** Name or path of the program. */
  command: v.optional(v.pipe(v.string(), v.nonEmpty()), 'espeak-ng'),
  /**
   * How many texts are spoken at once; further ones wait. By default four per processor, because most processes wait
   * for the client to read.
   */
  processes: v.optional(v.pipe(v.number(), v.integer(), v.minValue(1))),
  /** Such as `de+f2` for a voice of eSpeak. */
  voices: voicesOption,
})

const deploymentOptions = v.strictObject({
  /** Language of voices that do not name one, such as `de` or `en-gb`. */
  language: v.optional(v.pipe(v.string(), v.nonEmpty()), 'en-us'),
})
type DeploymentOptions = v.InferOutput<typeof deploymentOptions>

export default defineProvider({
  name: 'espeak',
  options,
  deploymentOptions,
  async setup({ command, processes = 4 * availableParallelism(), voices }, { fail }) {
    const known = await listLanguages(command)
    const queue = new BoundedQueue(processes)
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
        const voice = resolveVoice(input.voice, language, voices, known, fail)
        const release = await queue.enter(signal, () =>
          fail('overloaded', 'Too many texts are waiting to be spoken.'),
        )
        const speed = wordsPerMinute(input.speed ?? 1)
        return speak({ command, voice, speed, text: input.input }, signal, release, fail)
      },
    }
  },
})
