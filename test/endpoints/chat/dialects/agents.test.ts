/** Coding agents without any vendor: their recorded turns, answered by the model `mock/agent` of the starter. */
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { gatewayOf, standIn } from '../../../models/_vendors.ts'

/** The last request of a client, without the key that it had. */
async function requestOf(client: string): Promise<{ url: string; headers: any; body: any }> {
  const file = join(import.meta.dirname, `../../../wire/clients/${client}.json`)
  const { requests } = JSON.parse(await readFile(file, 'utf8'))
  const { url, headers, body } = requests.findLast(({ method }: any) => method === 'POST')
  const { authorization: _, ...others } = headers
  return { url, headers: others, body: { ...body, model: 'mock/agent', stream: false } }
}

async function agent(client: string) {
  const vendor = await standIn()
  await vendor.close()
  const gateway = await gatewayOf(vendor, [])
  const { url, headers, body } = await requestOf(client)
  return async (more: object) => {
    const { status, json } = await gateway.ask('POST', url, { headers, body: { ...body, ...more } })
    expect([client, status, json.error ?? null]).toEqual([client, 200, null])
    return json
  }
}

const CALL = '{"value":"b"}'

it('Claude Code calls a tool and reads its result', async () => {
  const ask = await agent('claude-code')
  const question = { role: 'user', content: `Please Write(${CALL})` }
  const { content, stop_reason } = await ask({ messages: [question] })
  expect(stop_reason).toBe('tool_use')
  const use = content.find(({ type }: any) => type === 'tool_use')
  expect(use).toMatchObject({ name: 'Write', input: { value: 'b' } })
  const result = { type: 'tool_result', tool_use_id: use.id, content: 'It is written.' }
  const messages = [question, { role: 'assistant', content }, { role: 'user', content: [result] }]
  const last = await ask({ messages })
  expect(last.content.at(-1).text).toBe('The tools answered: It is written.')
})

it('Codex calls a tool and reads its result', async () => {
  const ask = await agent('codex')
  const question = { type: 'message', role: 'user', content: `Please exec_command(${CALL})` }
  const { output } = await ask({ input: [question] })
  const call = output.find(({ type }: any) => type === 'function_call')
  expect(call).toMatchObject({ name: 'exec_command', arguments: CALL })
  const result = { type: 'function_call_output', call_id: call.call_id, output: 'It is written.' }
  const last = await ask({ input: [question, call, result] })
  expect(JSON.stringify(last.output)).toContain('The tools answered: It is written.')
})

it('opencode calls a tool and reads its result', async () => {
  const ask = await agent('opencode')
  const question = { role: 'user', content: `Please bash(${CALL})` }
  const { choices } = await ask({ messages: [question] })
  const { message } = choices[0]
  const [call] = message.tool_calls
  expect(call.function).toEqual({ name: 'bash', arguments: CALL })
  const result = { role: 'tool', tool_call_id: call.id, content: 'It is written.' }
  const last = await ask({ messages: [question, message, result] })
  expect(last.choices[0].message.content).toBe('The tools answered: It is written.')
})
