/** Providers written in a test. */
import * as v from 'valibot'
import { defineProvider, type ChatChunk, type ProviderPlugin } from '../src/plugin.ts'

export interface Behaviour {
  chat(signal: AbortSignal): AsyncIterable<ChatChunk>
  close?(): void
}

export function definePlugin(name: string, { chat, close }: Behaviour): ProviderPlugin {
  return defineProvider({
    name,
    options: v.optional(v.looseObject({}), {}),
    setup: () => ({ chat: async ({ signal }) => chat(signal), ...(close && { close }) }),
  }) as ProviderPlugin
}
