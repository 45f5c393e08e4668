/** Providers written in a test. */
import * as v from 'valibot'
import { defineProvider, type ChatChunk, type ProviderPlugin } from '../src/plugin.ts'

export interface Behaviour {
  chat(signal: AbortSignal): AsyncIterable<ChatChunk>
  close?(): void
}

/** The provider `mock` of a test, whose answers begin, and go on when they are told to. */
export function gated(told: Promise<void>): { readonly mock: { readonly use: ProviderPlugin } } {
  const use = definePlugin('gated', {
    async *chat() {
      yield { choices: [{ index: 0, delta: { content: 'We' } }] }
      await told
      yield { choices: [{ index: 0, delta: { content: 'll.' }, finish_reason: 'stop' }] }
    },
  })
  return { mock: { use } }
}

export function definePlugin(name: string, { chat, close }: Behaviour): ProviderPlugin {
  return defineProvider({
    name,
    options: v.optional(v.looseObject({}), {}),
    setup: () => ({ chat: async ({ signal }) => chat(signal), ...(close && { close }) }),
  }) as ProviderPlugin
}
