import { randomBytes } from 'node:crypto'
import { expect, it, vi } from 'vitest'
import { readdirSync, readFileSync, renameSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import type { CallContent } from '../../../src/observe/content/content.ts'
import { ContentFiles } from '../../../src/observe/content/content-log.ts'
import { keptOf, restored } from '../../../src/observe/content/kept.ts'
import { DayFolder } from '../../../src/observe/day-folder.ts'
import { ulidAt } from '../../../src/state/ids.ts'
import { folder } from '../../_folder.ts'

const DAY_MS = 86_400_000
const realExec = DatabaseSync.prototype.exec
const NOON = Date.UTC(2026, 10, 23, 12)

const contentAt = (at: number, key = 'key_1'): CallContent => ({
  id: `req_${ulidAt(at)}`,
  account: 'acme',
  key,
  endpoint: '/v1/chat/completions',
  decided: [{ mode: 'block', side: 'input', rule: 'deny:code', outcome: 'blocked' }],
  input: '{"messages":[]}',
  output: '[]',
  cut: false,
})

it.each([['files', true] as const, ['memory', false] as const])(
  'lists contents by key and time, newest first, and removes old days: %s',
  async (_, onDisk) => {
    const path = onDisk ? await folder({}) : undefined
    let now = NOON
    const files = new ContentFiles(path, { keep: 2, size: 1e9 }, () => now)
    const old = contentAt(NOON - DAY_MS)
    const [first, second] = [contentAt(NOON), contentAt(NOON + 5, 'key_2')]
    for (const one of [old, first, second]) expect(files.store(one)).toBeUndefined()
    expect(files.find(first.id)).toEqual(first)
    expect(files.list({ limit: 2 })).toEqual([second, first])
    expect(files.list({ limit: 9, key: 'key_1' })).toEqual([first, old])
    expect(files.list({ limit: 9, from: NOON + 1 })).toEqual([second])
    expect(files.list({ limit: 9, to: NOON })).toEqual([old])
    if (path !== undefined) {
      const [day] = readdirSync(path)
      expect(statSync(join(path, day!, 'contents.db')).mode & 0o777).toBe(0o600)
    }
    now += 1.5 * DAY_MS
    files.trim()
    expect(files.find(old.id)).toBeUndefined()
    expect(files.remove({ before: now })).toBe(2)
    expect(files.list({ limit: 9 })).toEqual([])
    files.close()
  },
)

it('says why nothing can be stored, and goes on when it can be again', async () => {
  const path = await folder({})
  let now = NOON
  const files = new ContentFiles(join(path, 'file', 'below'), { keep: 2, size: 1e9 }, () => now)
  const blocked = new ContentFiles('/dev/null/folder', { keep: 2, size: 1e9 }, () => now)
  expect(blocked.store(contentAt(NOON))).toContain('contents cannot be written')
  expect(files.store(contentAt(NOON))).toBeUndefined()
  now += 60_000
  expect(blocked.store(contentAt(now))).toContain('contents cannot be written')
  files.close()
})

it('stores no more in a file that is open where its disk is full, or its day has reached the size', async () => {
  let now = NOON
  const files = new ContentFiles(await folder({}), { keep: 2, size: 200_000 }, () => now)
  expect(files.store(contentAt(now))).toBeUndefined()
  const room = vi.spyOn(DayFolder.prototype, 'hasRoom', 'get').mockReturnValue(false)
  expect(files.store(contentAt(now + 1))).toBe('contents cannot be written: the disk is full')
  room.mockRestore()
  now += 60_000
  const large = { ...contentAt(now), input: randomBytes(200_000).toString('hex') }
  expect(files.store(large)).toContain('those of today have reached log.size')
  files.close()
})

it('removes contents from a full disk, and what an attempt before could not finish', async () => {
  const path = await folder({})
  const files = new ContentFiles(path, { keep: 2, size: 1e9 }, () => NOON)
  const first = contentAt(NOON)
  files.store(first)
  files.store(contentAt(NOON - DAY_MS, 'key_2'))
  vi.spyOn(DayFolder.prototype, 'hasRoom', 'get').mockReturnValue(false)
  // Not even a copy of what is left can be written.
  const exec = vi.spyOn(DatabaseSync.prototype, 'exec').mockImplementation(function (
    this: DatabaseSync,
    sql,
  ) {
    if (sql.includes('VACUUM')) throw new Error('database or disk is full')
    return realExec.call(this, sql)
  })
  expect(() => files.remove({ key: 'key_1' })).toThrow('disk is full')
  exec.mockRestore()
  expect(files.remove({ key: 'key_1' })).toBe(0)
  const names = readdirSync(path, { recursive: true }).map(String)
  const left = names
    .filter((name) => name.includes('.db'))
    .map((name) => readFileSync(join(path, name)).toString('latin1'))
  expect(left.length).toBeGreaterThan(1)
  expect(left.join()).not.toContain(first.id.slice(4))
  expect(files.store(contentAt(NOON + 1))).toBe('contents cannot be written: the disk is full')
  vi.restoreAllMocks()
  files.close()
})

it('reads and removes contents of the release before, which are beside the folders of days', async () => {
  const path = await folder({})
  let now = NOON
  const files = new ContentFiles(path, { keep: 2, size: 1e9 }, () => now)
  const [first, second] = [contentAt(NOON), contentAt(NOON + 1, 'key_2')]
  for (const one of [first, second]) files.store(one)
  files.close()
  renameSync(join(path, '2026-11-23', 'contents.db'), join(path, '2026-11-23.content.db'))
  const third = contentAt(NOON + 2)
  expect(files.store(third)).toBeUndefined()
  expect(files.list({ limit: 9 })).toEqual([third, second, first])
  expect(files.find(first.id)).toEqual(first)
  expect(files.remove({ key: 'key_1' })).toBe(2)
  expect(files.list({ limit: 9 })).toEqual([second])
  now += 4 * DAY_MS
  files.trim()
  expect(readdirSync(path)).toEqual([])
})

it('keeps texts that only begin like an address of a file', () => {
  const texts = ['data: 1, 2, 3', 'Data:, more', 'data:text says hello, world']
  const addresses = [
    'data:image/png;base64,AQID',
    'data:;base64,AQID',
    'data:text/plain;charset=utf-8,a',
  ]
  const { json } = keptOf([...texts, ...addresses])
  expect(restored(json)).toEqual([
    ...texts,
    'data:image/png;base64,',
    'data:;base64,',
    'data:text/plain;base64,',
  ])
})

it('keeps no credential for a tool server that a request names', () => {
  const secret = 'hunter2hunter2'
  const schema = { properties: { password: { type: 'string' }, headers: { type: 'object' } } }
  const server = {
    type: 'mcp',
    server_label: 'tickets',
    server_url: `https://me:${secret}@tools.example/sse?api_key=${secret}&room=7#access_token=${secret}`,
    authorization: secret,
    authorization_token: `Bearer ${secret}`,
    headers: { 'X-Any': secret, more: [secret] },
    require_approval: 'never',
  }
  const servers = [{ url: `https://tools.example/?token=${secret}`, 'x-api-key': secret }]
  const text = `Go to https://tools.example/?page=2 with the token.`
  const { json } = keptOf({ tools: [server, { parameters: schema }], servers, text })
  expect(json).not.toContain(secret)
  expect(JSON.parse(json)).toEqual({
    tools: [
      {
        ...server,
        server_url:
          'https://[secret]@tools.example/sse?api_key=[secret]&room=7#access_token=[secret]',
        authorization: '[secret]',
        authorization_token: '[secret]',
        headers: { 'X-Any': '[secret]', more: ['[secret]'] },
      },
      { parameters: schema },
    ],
    servers: [{ url: 'https://tools.example/?token=[secret]', 'x-api-key': '[secret]' }],
    text,
  })
})

it('keeps notes in the place of files, and a reader gets texts where it expects them', () => {
  const bytes = new Uint8Array([1, 2, 3])
  const { json, cut } = keptOf({
    file: { bytes, mediaType: 'audio/wav', filename: 'x.wav' },
    input_audio: { data: 'AQID', format: 'wav' },
    text: 'a text',
    labels: () => ['never'],
  })
  const note = {
    bytes: 3,
    sha256: '039058c6f2c0cb492c533b0a4d14ef77cc0f78abccced5287d84a1a2011cfb81',
  }
  expect(cut).toBe(false)
  expect(JSON.parse(json)).toEqual({
    file: { type: 'audio/wav', ...note },
    input_audio: { data: { type: null, ...note }, format: 'wav' },
    text: 'a text',
  })
  expect(restored(json)).toEqual({
    file: 'data:audio/wav;base64,',
    input_audio: { data: 'data:;base64,', format: 'wav' },
    text: 'a text',
  })
  const long = keptOf({ first: 'x'.repeat(300_000), later: ['y'] })
  expect([long.cut, long.json.length < 270_000, JSON.parse(long.json).later]).toEqual([
    true,
    true,
    undefined,
  ])
})
