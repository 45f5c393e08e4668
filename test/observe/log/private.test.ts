/** What no file of the request log and of usage may hold, with the defaults: it is planted, and looked for in every byte. */
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { folder } from '../../_folder.ts'
import { createTestGateway, hello, MOCK_CONFIG } from '../../_setup.ts'
import { json, startUpstream } from '../../upstream.ts'

const LONG = 'PLANTED_PROMPT that goes on for more than forty characters'
const PLANTED = {
  prompt: LONG,
  system: 'PLANTED_SYSTEM',
  stop: 'PLANTED_STOP',
  tool: 'PLANTED_TOOL',
  session: 'PLANTED_SESSION',
  agent: 'PLANTED_AGENT',
  header: 'PLANTED_HEADER',
  query: 'PLANTED_QUERY',
  address: '203.0.113.77',
  vendorKey: 'PLANTED_VENDOR_KEY_0123456789',
  vendorText: 'PLANTED_VENDOR',
}

it('no content, key, address or credential is in a file of the log', async () => {
  const path = await folder({})
  await using vendor = await startUpstream()
  await using collector = await startUpstream(json({}))
  // It quotes what it was asked, and the key that it was asked with.
  vendor.answer(() =>
    json({ error: { message: `Bad: "${LONG}"; Bearer ${PLANTED.vendorKey}` } }, 500),
  )
  const deployments = [{ provider: 'quoting', model: 'm' }]
  const t = await createTestGateway({
    ...MOCK_CONFIG,
    state: { driver: 'file', path },
    log: { path: join(path, 'log') },
    providers: {
      ...MOCK_CONFIG.providers,
      quoting: {
        use: 'openai-compatible',
        options: { baseURL: `${vendor.url}/v1`, apiKey: PLANTED.vendorKey },
      },
    },
    models: {
      ...MOCK_CONFIG.models,
      'mock/quoting': { pricing: { prompt: '0', completion: '0' }, deployments },
    },
    sinks: [{ use: 'otlp', options: { endpoint: collector.url } }],
  })
  const key = await t.newKey({ policy: { version: 1, bannedPatterns: ['PLANTED_PROMPT'] } })
  const body = {
    ...hello,
    stop: [PLANTED.stop],
    messages: [
      { role: 'system', content: PLANTED.system },
      { role: 'user', content: LONG },
    ],
    tools: [{ type: 'function', function: { name: PLANTED.tool, parameters: {} } }],
    session_id: PLANTED.session,
  }
  const headers = {
    'user-agent': PLANTED.agent,
    'x-forwarded-for': PLANTED.address,
    'x-odd': PLANTED.header,
  }
  const asked = [
    await t.chat(body, { headers }),
    await t.chat({ ...body, stream: true }, { headers }),
    await t.chat({ ...body, model: 'mock/quoting' }, { headers }),
    await t.chat(body, { key: key.secret, headers }),
    await t.chat(body, { key: `${t.key.secret}x`, headers }),
    await t.ask('POST', `/v1/chat/completions?q=${PLANTED.query}`, { body, headers }),
    await t.ask('GET', `/v1/${PLANTED.query}?q=${PLANTED.query}`, { headers }),
  ]
  expect(asked.map(({ status }) => status)).toEqual([200, 200, 502, 200, 401, 200, 404])
  await t.close()

  const names = await readdir(join(path, 'log'), { recursive: true })
  const files = names.filter((name) => name.includes('.'))
  expect(files.filter((name) => /^(\d{4}-\d\d-\d\d.calls|usage)\.db$/.test(name))).toHaveLength(2)
  const bytes = Buffer.concat(
    await Promise.all(files.map((name) => readFile(join(path, 'log', name)))),
  )
  // The calls are there.
  for (const { headers: answered } of asked.slice(0, 4)) {
    expect(bytes.includes(String(answered['x-request-id']).slice(4))).toBe(true)
  }
  const secrets = { ...PLANTED, prompt: 'PLANTED_PROMPT', key: t.key.secret, other: key.secret }
  const found = Object.entries(secrets).filter(([, text]) => bytes.includes(text))
  expect(found).toEqual([])
  // What sinks alone get.
  expect(bytes.includes('finish_reasons')).toBe(false)
})
