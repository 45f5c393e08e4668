/** A gateway with guards before a vendor on a real socket. */
import type { GuardPlugin } from '../../src/plugin.ts'
import { createTestGateway, eventsOf, type Answer, type TestGateway } from '../_setup.ts'
import { events, json, startUpstream, type FakeUpstream } from '../upstream.ts'
import type { UserConfig } from '../../src/config/config.ts'
import type { Policy } from '../../src/policy/policy.ts'

export interface Guarded extends AsyncDisposable {
  readonly t: TestGateway
  readonly vendor: FakeUpstream
  /** Asks with a key of this policy. */
  ask(policy: Partial<Policy> | undefined, body?: object): Promise<Answer>
}

type GuardSettings = NonNullable<NonNullable<UserConfig['guards']>['use']>[number]

/** @param use guards, with their settings or without */
export async function guarded(
  use: readonly (GuardPlugin | GuardSettings)[],
  guards: Omit<NonNullable<UserConfig['guards']>, 'use'> = {},
  more: UserConfig = {},
): Promise<Guarded> {
  const vendor = await startUpstream()
  const model = {
    pricing: { prompt: '0.000001', completion: '0.000002' },
    capabilities: ['STREAMING' as const, 'TOOLS' as const, 'LOGPROBS' as const, 'CHOICES' as const],
    deployments: [{ provider: 'vendor', model: 'swift' }],
  }
  const t = await createTestGateway({
    ...more,
    providers: {
      vendor: { use: 'openai-compatible', options: { baseURL: `${vendor.url}/v1` } },
      ...more.providers,
    },
    models: {
      'acme/swift': model,
      'acme/judge': {
        ...model,
        capabilities: [...model.capabilities, 'REASONING'],
        deployments: [{ provider: 'vendor', model: 'judge' }],
      },
      'acme/free': { ...model, free_tier: true, pricing: { prompt: '0', completion: '0' } },
    },
    guards: { use: use.map((one) => ('kind' in one ? { use: one } : one)), ...guards },
  })
  const keys = new Map<string, string>()
  const ask = async (policy: Partial<Policy> | undefined, body: object = {}) => {
    const id = JSON.stringify(policy)
    let secret = policy === undefined ? t.key.secret : keys.get(id)
    if (!secret) {
      secret = (await t.newKey({ policy: { version: 1, ...policy } })).secret
      keys.set(id, secret)
    }
    const messages = [{ role: 'user', content: 'Tell me something.' }]
    return t.chat({ model: 'acme/swift', messages, ...body }, { key: secret })
  }
  return {
    t,
    vendor,
    ask,
    async [Symbol.asyncDispose]() {
      await t.close()
      await vendor.close()
    },
  }
}

export const USAGE = { prompt_tokens: 40, completion_tokens: 20 }

/** A vendor's stream of these deltas. */
export function streamOf(...deltas: readonly object[]) {
  return events(
    ...deltas.map((delta) => chunkOf(delta)),
    chunkOf({}, 'stop'),
    { choices: [], usage: USAGE },
    '[DONE]',
  )
}

export function chunkOf(delta: object, finish_reason: string | null = null, index = 0) {
  return { id: 'x', created: 1, model: 'swift', choices: [{ index, delta, finish_reason }] }
}

/** A vendor's whole answer. */
export function wholeOf(message: object, finish_reason = 'stop') {
  const choices = [{ index: 0, message: { role: 'assistant', ...message }, finish_reason }]
  return json({ id: 'x', created: 1, model: 'swift', choices, usage: USAGE })
}

/** What a client makes of a stream: text, refusal, finish, usage, guard. */
export function readStream({ text }: Answer, index = 0) {
  const seen = { content: '', refusal: '', reasoning: '', tools: '', finish: '' }
  let usage: any
  let guard: any
  let error: any
  for (const event of eventsOf(text)) {
    if (event === '[DONE]') continue
    if (event.error) error = event.error
    if (event.usage) usage = event.usage
    if (event.guard) guard = event.guard
    for (const choice of event.choices ?? []) {
      if (choice.index !== index) continue
      seen.content += choice.delta.content ?? ''
      seen.refusal += choice.delta.refusal ?? ''
      seen.reasoning += choice.delta.reasoning ?? ''
      for (const call of choice.delta.tool_calls ?? []) seen.tools += call.function.arguments
      seen.finish ||= choice.finish_reason ?? ''
    }
  }
  return { ...seen, usage, guard, error }
}
