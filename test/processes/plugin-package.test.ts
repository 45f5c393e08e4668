/** Packages as `plugin new --package` writes them: packed, unpacked where npm installs them, and found by their names. */
import { execFile } from 'node:child_process'
import { mkdir, readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, it } from 'vitest'
import { call } from '../_cli.ts'
import { folder } from '../_folder.ts'
import { createTestGateway, hello } from '../_setup.ts'
import { events, json, startUpstream } from '../upstream.ts'

const exec = promisify(execFile)
const KINDS = ['provider', 'guard', 'search', 'sink']

it('a package of each kind is found by its short name', async () => {
  const cwd = await folder({ 'package.json': '{}' })
  for (const kind of KINDS) {
    const { code } = await call(['plugin', 'new', kind, 'acme', '--package', '--js'], { cwd })
    expect(code).toBe(0)
  }
  await exec('npm', ['pack', ...KINDS.map((kind) => `./sluicegate-${kind}-acme`)], { cwd })
  const tarballs = (await readdir(cwd)).filter((name) => name.endsWith('.tgz'))
  expect(tarballs.length).toBe(KINDS.length)
  for (const tarball of tarballs) {
    const target = join(cwd, 'node_modules', tarball.replace(/-[\d.]+\.tgz$/, ''))
    await mkdir(target, { recursive: true })
    await exec('tar', ['-xzf', join(cwd, tarball), '-C', target, '--strip-components=1'])
  }
  const found = [{ link: 'https://a.example/', name: 'A', excerpt: 'All about a.' }]
  await using vendor = await startUpstream(events({ text: 'Hello' }, { tokens: { in: 1, out: 1 } }))
  await using service = await startUpstream(json({ found }))
  await using gateway = await createTestGateway(
    {
      providers: { acme: { use: 'acme', options: { url: vendor.url, apiKey: 'key' } } },
      models: {
        'acme/small': {
          pricing: { prompt: '0', completion: '0' },
          deployments: [{ provider: 'acme', model: 'small-1' }],
        },
      },
      guards: { use: [{ use: 'acme', applies: 'always' }] },
      search: { engines: { acme: { use: 'acme', options: { url: service.url }, price: '0' } } },
      sinks: [{ use: 'acme', options: { url: service.url } }],
    },
    cwd,
  )
  const ask = async (content: string) => {
    const messages = [{ role: 'user', content }]
    return (await gateway.chat({ ...hello, model: 'acme/small:online', messages })).json
  }
  const answer = await ask('What is a?')
  expect(answer.choices[0].message.content).toMatch(/^Hello/)
  expect(service.requests[0]!.path).toBe('/find?words=What%20is%20a%3F&limit=5')
  expect((await ask('See TICKET-123456.')).guard).toMatchObject({ rules: ['x:acme/ticket'] })
})
