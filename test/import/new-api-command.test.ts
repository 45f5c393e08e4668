import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { ask, call, inMemory } from '../_cli.ts'
import { folder } from '../_folder.ts'
import { json, startUpstream } from '../upstream.ts'

const SECRET = 'sk-vendor-secret-0123'
const ADMIN = 'admin-token-of-the-migration'

it('import new-api moves an installation to a gateway, whose clients keep their tokens', async () => {
  const upstream = await startUpstream()
  onTestFinished(() => upstream.close())
  upstream.answer(() =>
    json({
      id: 'c',
      object: 'chat.completion',
      created: 1,
      model: 'm',
      choices: [{ index: 0, message: { role: 'assistant', content: 'Hi' }, finish_reason: 'stop' }],
      usage: { prompt_tokens: 1000, completion_tokens: 100, total_tokens: 1100 },
    }),
  )
  const channel = { id: 1, type: 1, key: SECRET, status: 1, group: 'default', priority: 0 }
  const token = { user_id: 7, status: 1, expired_time: -1, unlimited_quota: 1, group: '' }
  const cwd = await folder({
    'tables/channels.json': JSON.stringify([
      { ...channel, base_url: upstream.url, models: 'fast,slow,priceless' },
      { ...channel, id: 2, type: 2, models: 'mj' },
    ]),
    'tables/tokens.json': JSON.stringify([
      { ...token, id: 1, key: '0123456789abcdef', name: 'laptop', remain_quota: 0 },
      {
        ...token,
        id: 2,
        key: 'fedcba9876543210',
        name: 'limited',
        remain_quota: 500_000,
        unlimited_quota: 0,
        model_limits_enabled: 1,
        model_limits: 'slow',
      },
      {
        ...token,
        id: 3,
        key: 'aaaaaaaaaaaaaaaa',
        name: 'by address',
        remain_quota: 0,
        allow_ips: '10.0.0.1',
      },
    ]),
    'tables/users.json': JSON.stringify([
      { id: 7, username: 'ada', quota: 1_250_000, status: 1, group: 'default' },
    ]),
    'tables/options.json': JSON.stringify([
      { key: 'ModelRatio', value: '{"fast":1,"slow":2}' },
      { key: 'CompletionRatio', value: '{"fast":4,"slow":4}' },
    ]),
  })
  const command = ['import', 'new-api', '--tables', 'tables']
  const written = await call([...command, '--out', 'gateway'], { cwd })
  expect(written.code).toBe(3)
  const [first] = written.out.split('\n')
  expect(first).toBe(
    '2 of 4 models served, 2 not (1 no price, 1 disabled); 3 keys: 2 active, 1 disabled',
  )
  for (const secret of [SECRET, '0123456789abcdef', 'fedcba9876543210']) {
    expect(written.out + written.err).not.toContain(secret)
  }
  const out = join(cwd, 'gateway')
  expect(await readFile(join(out, 'gateway.config.yaml'), 'utf8')).not.toContain(SECRET)
  const checked = await call(['check'], { cwd: out })
  expect([checked.code, checked.out.split('\n')[0]]).toEqual([1, first!.split(';')[0]])

  const url = await inMemory.served({ cwd: out, env: { SLUICEGATE_ADMIN_TOKEN: ADMIN } })
  const where = { cwd, env: { SLUICEGATE_ADMIN_TOKEN: ADMIN } }
  const apply = [...command, '--url', url, '--apply']
  expect((await call(apply, where)).out).toContain(
    'Accounts: 1 created, 0 there already, 1 credited. Keys: 3 created, 0 there already, 0 refused.',
  )
  expect((await call(apply, where)).out).toContain(
    'Accounts: 0 created, 1 there already, 0 credited. Keys: 0 created, 3 there already, 0 refused.',
  )
  const chat = (key: string, model: string) =>
    ask(url, key, '/v1/chat/completions', { model, messages: [{ role: 'user', content: 'Hello' }] })
  const answer = await chat('sk-0123456789abcdef', 'fast')
  // 1000 tokens at 0.000002, 100 at 0.000008.
  expect([answer.status, answer.json.usage.cost]).toEqual([200, 0.0028])
  expect(upstream.requests[0]!.headers.authorization).toBe(`Bearer ${SECRET}`)
  expect((await chat('sk-0123456789abcdef', 'priceless')).status).toBe(404)
  expect((await chat('sk-0123456789abcdef', 'mj')).status).toBe(404)
  expect((await chat('sk-fedcba9876543210', 'slow')).status).toBe(200)
  expect((await chat('sk-fedcba9876543210', 'fast')).json.error.code).toBe('model_not_allowed')
  expect((await chat('sk-aaaaaaaaaaaaaaaa', 'fast')).status).toBe(401)
  const { json: account } = await ask(url, ADMIN, '/admin/accounts/new-api-7')
  expect(JSON.stringify(account)).toContain('ada')
}, 60_000)

it('import new-api needs tables', async () => {
  const { code, err } = await call(['import', 'new-api'])
  expect([code, err]).toEqual([2, 'Name the exported tables of new-api: --tables <folder>\n'])
})
