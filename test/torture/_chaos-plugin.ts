/** The provider of `chaos.ts` that breaks: it does what the text of the last message says. */
import * as v from 'valibot'
import { defineProvider } from '../../src/plugin.ts'

const USAGE = { prompt_tokens: 9, completion_tokens: 2, total_tokens: 11 }

async function* words(fault: string): AsyncGenerator<never> {
  yield { choices: [{ index: 0, delta: { content: 'Hello ' } }] } as never
  if (fault === 'throws in its stream') throw new Error('chaos: in a stream')
  yield { choices: [{ index: 0, delta: { content: 'there.' } }] } as never
  const choices = [{ index: 0, delta: {}, finish_reason: 'stop' }]
  yield { choices, usage: USAGE, endOfStream: true } as never
}

export default defineProvider({
  name: 'chaos',
  options: v.looseObject({}),
  setup: () => ({
    chat: async ({ input }) => {
      const fault = String((input.messages.at(-1) as { content?: unknown }).content)
      if (fault === 'throws') throw new Error('chaos: at once')
      if (fault === 'throws later') {
        setTimeout(() => {
          throw new Error('chaos: later')
        }, 5)
      }
      if (fault === 'rejects later') void Promise.reject(new Error('chaos: rejected'))
      return words(fault)
    },
  }),
})
