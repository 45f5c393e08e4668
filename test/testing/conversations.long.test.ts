/** The check of difficult conversations, with a provider that has one mistake at a time. */
import * as v from 'valibot'
import { describe, expect, it } from 'vitest'
import type { ChatInput } from '../../src/plugin.ts'
import { testProvider, type RequestForm } from '../../src/testing.ts'
import { folder } from '../_folder.ts'
import { call } from '../_cli.ts'
import { definePlugin } from '../_plugin.ts'
import { flawed, type Flaws } from './flawed.ts'

/** A vendor that takes chats as clients send them, but no empty text. */
const FORM: RequestForm = {
  schema: v.strictObject({
    model: v.literal('test-model'),
    messages: v.array(v.looseObject({ role: v.string() })),
    input: v.record(v.string(), v.unknown()),
  }),
}

/** Sends everything that it is asked. */
const whole = ({ messages, ...input }: ChatInput, model: string) => ({ model, messages, input })

async function conversations(flaws: Flaws, form: RequestForm = FORM) {
  const report = await testProvider({
    provider: flawed({ body: whole, ...flaws }),
    directory: import.meta.dirname,
    timeoutMs: 60_000,
    requests: form,
  })
  const checks = report.checks.filter(({ name }) => name === 'conversations')
  return {
    checks,
    failed: report.checks.filter(({ result }) => result === 'failed').map(({ name }) => name),
    notes: Object.fromEntries(checks.map(({ on, notes }) => [on, notes])),
  }
}

describe('difficult conversations', () => {
  it('pass when all of them arrive', async () => {
    const { checks } = await conversations({})
    expect(checks).toEqual([
      {
        name: 'conversations',
        on: null,
        result: 'ok',
        notes: [expect.stringMatching(/^\d+ sent, 0 refused$/)],
      },
    ])
  })

  it('fail when a part is dropped, with its place and its words', async () => {
    const textOnly = (content: unknown) =>
      Array.isArray(content) ? content.filter(({ type }) => type === 'text') : content
    const body = ({ messages, ...input }: ChatInput, model: string) => ({
      model,
      input,
      messages: messages.map((one) => ({ ...one, content: textOnly(one.content) })),
    })
    const { notes, failed } = await conversations({ body })
    expect(notes['PDF at an address']).toEqual([
      'messages[0].content[1] does not arrive: "https://files.example/paper.pdf"',
    ])
    expect(notes).not.toHaveProperty('two user messages')
    expect(new Set(failed)).toEqual(new Set(['cases', 'forwarded', 'conversations']))
  })

  it('fail when the body has another form, with the member and the cause', async () => {
    const body = (input: ChatInput, model: string) => ({ ...whole(input, model), user: 'me' })
    const { notes } = await conversations({ body })
    expect(notes['two user messages']).toEqual([expect.stringMatching(/^the body's user: .*never/)])
  })

  it('fail when digits or arguments are changed', async () => {
    const rounded = (_: string, value: unknown) =>
      typeof value === 'string' && /^\{.*\d{16,}/.test(value)
        ? JSON.stringify(JSON.parse(value))
        : value
    const body = (input: ChatInput, model: string) =>
      JSON.parse(JSON.stringify(whole(input, model), rounded))
    const { checks } = await conversations({ body })
    expect(checks.map(({ result }) => result)).toEqual(['failed'])
    expect(checks[0]!.notes[0]).toMatch(/^messages\[\d\]\.tool_calls\[0\] does not arrive: "\d+/)
  })

  it('fail when one is refused that should not be, or in another way, or not at all', async () => {
    const provider = refusing('sound', 'messages[0].content[1]')
    const run = async (refused: RequestForm['refused'] = {}) => {
      const requests = { ...FORM, refused }
      const directory = import.meta.dirname
      const report = await testProvider({ provider, directory, timeoutMs: 60_000, requests })
      const checks = report.checks.filter(({ name }) => name === 'conversations')
      return Object.fromEntries(checks.map(({ on, notes }) => [on, notes[0]]))
    }
    expect(await run()).toEqual({
      sound: expect.stringMatching(
        /^it is refused with unsupported_value at messages\[0\]\.content\[1\]: No sound\./,
      ),
    })
    expect(await run({ sound: ['unsupported_value', 'messages'] })).toEqual({
      sound:
        'it is refused with unsupported_value at messages[0].content[1]; expected unsupported_value at messages',
    })
    const right = ['unsupported_value', 'messages[0].content[1]'] as const
    expect(await run({ sound: right })).toEqual({ null: expect.stringMatching(/1 refused$/) })
    const more = await run({ sound: right, 'two user messages': right })
    expect(Object.keys(more)).toEqual(['two user messages'])
  })

  it('fail when the provider breaks', async () => {
    const body = (input: ChatInput, model: string) => {
      if (input.tools) throw new TypeError('oops')
      return whole(input, model)
    }
    const { notes } = await conversations({ body })
    expect(notes['two calls at once']).toEqual([
      expect.stringMatching(
        /^it failed before its request: TypeError: oops \(conversations\.long\.test\.ts/,
      ),
    ])
  })

  it('are skipped for a provider that asks no vendor', async () => {
    const provider = definePlugin('local', {
      async *chat() {
        yield { choices: [{ index: 0, delta: { content: 'Hi' }, finish_reason: 'stop' }] }
      },
    })
    const directory = import.meta.dirname
    const report = await testProvider({ provider, directory, timeoutMs: 60_000, requests: FORM })
    expect(report.checks.find(({ name }) => name === 'conversations')!.result).toBe('skipped')
  })
})

/** A provider that refuses sound. */
function refusing(what: string, param: string) {
  const plugin = flawed({ body: whole })
  return {
    ...plugin,
    async setup(...[options, host]: Parameters<typeof plugin.setup>) {
      const made = await plugin.setup(options, host)
      return {
        ...made,
        async chat(request: Parameters<NonNullable<typeof made.chat>>[0]) {
          if (JSON.stringify(request.input).includes('"input_audio"')) {
            throw host.fail('bad_request', `No ${what}.`, { code: 'unsupported_value', param })
          }
          return made.chat!(request)
        },
      }
    },
  }
}

describe('provider test --requests', () => {
  const provider = new URL('../../docs/examples/provider-sse/my-provider.ts', import.meta.url)
    .pathname
  const schemaOf = (issues: string) =>
    `export default { schema: { '~standard': { version: 1, vendor: 'own', validate: (value) => (${issues}) } } }`
  const run = async (module: string) => {
    const cwd = await folder({ 'form.mjs': module })
    return call(['provider', 'test', provider, '--requests', './form.mjs', '--json'], { cwd })
  }

  it('holds the conversations against the form', async () => {
    const { out, code } = await run(
      schemaOf("{ issues: [{ message: 'too short', path: ['turns', 0] }] }"),
    )
    expect(code).toBe(1)
    const { checks } = JSON.parse(out) as {
      checks: { name: string; on: string; notes: string[] }[]
    }
    const found = checks.find(({ on }) => on === 'two user messages')!
    expect([found.name, ...found.notes]).toEqual(['conversations', "the body's turns.0: too short"])
  })

  it('says what is wrong with the module', async () => {
    const none = await run('export default {}')
    expect(JSON.parse(none.err).error.message).toMatch(
      /--requests: expected .*form\.mjs to have a default export with "schema"/,
    )
    expect(none.code).toBe(2)
  })
})
