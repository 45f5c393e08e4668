/** Commands for authors of plugins: what `plugin new` writes passes its kit and is served. */
import { readFile, rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { setUpDev, type TracedCall } from '../../src/cli/plugin/dev-setup.ts'
import { findPlugin } from '../../src/gateway/plugin-code.ts'
import { call } from '../_cli.ts'
import { folder } from '../_folder.ts'
import { createTestGateway, hello } from '../_setup.ts'
import { events, json, startUpstream } from '../upstream.ts'
import {
  checkGuard,
  readGuardCases,
  readSearchCases,
  readSinkCases,
  readTranscripts,
  testPlugin,
  testProvider,
  testSearch,
  testSink,
} from '../../src/testing.ts'

/** Writes a plugin into a folder. */
async function written(...args: readonly string[]) {
  const dir = await folder({})
  const { code, out, err } = await call(['plugin', 'new', ...args, '--dir', dir])
  expect([code, err]).toEqual([0, ''])
  return { dir, out, read: (path: string) => readFile(join(dir, path), 'utf8') }
}

const linesOf = (text: string) => text.trimEnd().split('\n').length

describe('plugin new', () => {
  it.each(['sse', 'lines', 'whole', 'tools'])(
    'writes a provider that passes: %s',
    async (style) => {
      const { dir, read } = await written('provider', 'acme', '--style', style)
      expect(linesOf(await read('acme.ts'))).toBeLessThanOrEqual(style === 'tools' ? 90 : 30)
      const transcripts = await readTranscripts(join(dir, 'acme.cases'))
      const { failed, name } = await testProvider({
        provider: './acme.ts',
        directory: dir,
        transcripts,
        timeoutMs: 30_000,
      })
      expect([name, failed]).toEqual(['acme', []])
    },
  )

  it('writes a guard, a search engine and a sink that pass', async () => {
    const guard = await written('guard', 'tick')
    expect(linesOf(await guard.read('tick.ts'))).toBeLessThanOrEqual(17)
    const { default: tick } = await import(join(guard.dir, 'tick.ts'))
    const texts = await readGuardCases(join(guard.dir, 'tick.cases'))
    expect((await checkGuard(tick, texts)).failed).toEqual([])
    const search = await written('search', 'finder', '--js')
    const { default: finder } = await import(join(search.dir, 'finder.js'))
    const cases = await readSearchCases(join(search.dir, 'finder.cases'))
    expect((await testSearch(finder, { cases })).failed).toEqual([])
    const sink = await written('sink', 'chat')
    expect(linesOf(await sink.read('chat.ts'))).toBeLessThanOrEqual(25)
    const { default: chat } = await import(join(sink.dir, 'chat.ts'))
    const events = await readSinkCases(join(sink.dir, 'chat.cases'))
    expect((await testSink(chat, { cases: events })).failed).toEqual([])
  })

  it('writes what a gateway serves', async () => {
    const { dir } = await written('provider', 'acme')
    await using upstream = await startUpstream(
      events({ text: 'Hello' }, { tokens: { in: 1, out: 1 } }),
    )
    const use = join(dir, 'acme.ts')
    await using gateway = await createTestGateway({
      providers: { acme: { use, options: { url: upstream.url, apiKey: 'key' } } },
      models: {
        'acme/small': {
          pricing: { prompt: '0', completion: '0' },
          deployments: [{ provider: 'acme', model: 's' }],
        },
      },
    })
    const { json: answer } = await gateway.chat({ ...hello, model: 'acme/small' })
    expect(answer.choices[0].message.content).toBe('Hello')
  })

  it('writes a package', async () => {
    const { read, out } = await written('guard', 'tick', '--package')
    const manifest = JSON.parse(await read('sluicegate-guard-tick/package.json'))
    expect(manifest).toMatchObject({
      name: 'sluicegate-guard-tick',
      exports: './dist/tick.js',
      keywords: ['sluicegate-plugin'],
      peerDependenciesMeta: { sluicegate: { optional: true } },
    })
    expect(await read('sluicegate-guard-tick/test/tick.test.js')).toContain("'../dist/tick.js'")
    expect(out).toContain('npm install && npm test')
  })

  it.each<[args: string[], message: RegExp]>([
    [
      ['lamp', 'acme'],
      /no kind of plugin "lamp"; there are provider, guard, search, sink, payments/,
    ],
    [['guard', 'Acme'], /cannot be called "Acme": expected lower-case letters/],
    [['guard', 'acme', '--style', 'sse'], /--style of a guard is one of check, stream, remote/],
  ])('refuses %j', async (args, message) => {
    const { code, err } = await call(['plugin', 'new', ...args])
    expect([code, err]).toEqual([2, expect.stringMatching(message)])
  })

  it('writes modules into a folder of CommonJS, and says what is wrong with others there', async () => {
    const dir = await folder({ 'package.json': '{ "type": "commonjs" }' })
    const { out } = await call(['plugin', 'new', 'guard', 'tick', '--dir', dir])
    expect(out).toContain('use: ./tick.mts')
    expect((await testPlugin(join(dir, 'tick.mts'), { only: 'input' })).failed).toEqual([])
    await rename(join(dir, 'tick.mts'), join(dir, 'tick.ts'))
    await expect(testPlugin(join(dir, 'tick.ts'))).rejects.toThrow(/say "module" there, or end/)
  })

  it('has checks with names', async () => {
    const { dir } = await written('guard', 'tick')
    const test = ['plugin', 'test', join(dir, 'tick.ts'), '--only', 'relase']
    const { code, err } = await call(test)
    expect([code, err]).toEqual([2, expect.stringMatching(/no check "relase"; did you mean/)])
  })

  it('says of a check that it is none of this plugin', async () => {
    const { dir } = await written('sink', 'chat')
    const test = ['plugin', 'test', join(dir, 'chat.ts'), '--only', 'results']
    const { code, out, err } = await call(test)
    const message = /--only: the check "results" did not run for the sink chat/
    expect([code, out, err]).toEqual([2, '', expect.stringMatching(message)])
  })

  it('measures what a search engine leaves behind', async () => {
    const { dir, read } = await written('search', 'finder')
    const keep = ';((globalThis as any).kept ??= []).push(Array.from({ length: 16 }, String))\n'
    const leaking = (await read('finder.ts')).replace(/(?=const \{ found\b)/, keep)
    await writeFile(join(dir, 'finder.ts'), leaking)
    const { failed } = await testPlugin(join(dir, 'finder.ts'), { only: 'memory' })
    expect(failed.map(({ name, notes }) => [name, ...notes])).toEqual([
      ['memory', expect.stringMatching(/^searches leave \d+ bytes each behind, of 2000/)],
    ])
  })

  it('says of which cases something was not checked', async () => {
    const { dir } = await written('provider', 'acme')
    const request = { messages: [{ role: 'user', content: 'Hi.' }] }
    const bare = JSON.stringify({ request, expect: { failure: 'bad_request' } })
    await writeFile(join(dir, 'acme.cases/image.json'), bare)
    const { out } = await call(['plugin', 'test', join(dir, 'acme.ts'), '--only', 'cuts'])
    expect(out).toContain('\nNot checked: cuts (image)\n  it sends no request to a vendor\n')
  })

  it('overwrites nothing', async () => {
    const { dir } = await written('guard', 'tick')
    const { code, err } = await call(['plugin', 'new', 'guard', 'tick', '--dir', dir])
    expect([code, err]).toEqual([1, expect.stringMatching(/tick\.ts exists/)])
  })
})

it('plugin dev sends the events of the cases of a sink, and shows what becomes of them', async () => {
  const { dir } = await written('sink', 'chat')
  const found = await findPlugin(join(dir, 'chat.ts'), dir)
  const shown: TracedCall[] = []
  const show = (one: TracedCall) => void shown.push(one)
  const setup = await setUpDev({
    found,
    cases: join(dir, 'chat.cases'),
    live: false,
    options: undefined,
    addressOption: undefined,
    secret: 'sk-of-the-test',
    trace: { folder: dir, stack: false, secrets: [], show },
    show: () => {},
  })
  await setup.play!()
  await setup.close()
  const [{ title, lines }] = shown as [TracedCall]
  expect([title, shown.length]).toEqual(['chat, send', 1])
  expect(lines.join('\n')).toMatch(
    /got .*The disk is full[^]*sent .*POST .*raised: The disk[^]*came .*200[^]*all has arrived/,
  )
})

describe('plugin record', () => {
  const KEY = 'secret-key-of-acme'
  const request = JSON.stringify({
    model: 'small-1',
    messages: [{ role: 'user', content: 'Hi.' }],
    stream: true,
  })
  const record = (dir: string, url: string) =>
    call(
      [
        'plugin',
        'record',
        join(dir, 'acme.ts'),
        '--request',
        'request.json',
        '--case',
        'real',
        '--options',
        `{"url":"${url}/v1","apiKey":"\${ACME_KEY}"}`,
      ],
      { cwd: dir, env: { ACME_KEY: KEY } },
    )

  it('writes what a vendor has answered as a case that the kit replays, without secrets', async () => {
    const { dir, read } = await written('provider', 'acme')
    await writeFile(join(dir, 'request.json'), request)
    await using vendor = await startUpstream()
    vendor.answer(({ headers }) => ({
      headers: {
        'content-type': 'text/event-stream',
        'set-cookie': 'session=4711',
        'x-organization': 'acme-inc',
      },
      pieces: [
        `data: {"text":"For ${headers.authorization}"}\n\n`,
        'data: {"text":" of org-4711abcd","account_id":"a4711"}\n\n',
        'data: {"tokens":{"in":5,"out":7}}\n\n',
      ],
    }))
    const { code, out, err } = await record(dir, vendor.url)
    expect([code, err]).toEqual([0, ''])
    expect(out).toContain('the header set-cookie')
    expect(out).toContain('the value of an option, in the body')
    const files = [await read('acme.cases/real.http'), await read('acme.cases/real.json')]
    expect(files.join('')).not.toMatch(/secret-key|4711|acme-inc/)
    expect(JSON.parse(files[1]!)).toEqual({
      request: JSON.parse(request),
      expect: {
        text: 'For Bearer [removed] of [removed]',
        usage: { prompt_tokens: 5, completion_tokens: 7 },
        sent: { model: 'small-1', turns: [{ role: 'user', content: 'Hi.' }] },
      },
    })
    const transcripts = await readTranscripts(join(dir, 'acme.cases'))
    const provider = { provider: './acme.ts', directory: dir, transcripts }
    expect((await testProvider({ ...provider, only: 'answer' })).failed).toEqual([])
    const again = await record(dir, vendor.url)
    expect([again.code, again.err]).toEqual([1, expect.stringMatching(/exists, and is not overw/)])
  })

  it('says why no answer came, and writes nothing', async () => {
    const { dir, read } = await written('provider', 'acme')
    await writeFile(join(dir, 'request.json'), request)
    const { code, err } = await record(dir, 'http://127.0.0.1:9')
    expect([code, err]).toEqual([1, expect.stringMatching(/No answer came: .*ECONNREFUSED/)])
    await expect(read('acme.cases/real.http')).rejects.toThrow('ENOENT')
  })

  it('writes cases of search engines', async () => {
    const { dir, read } = await written('search', 'finder')
    await writeFile(join(dir, 'query.json'), '{"text":"What is a?"}')
    const found = [{ link: 'https://a.example/', name: 'A', excerpt: 'All about a.' }]
    await using service = await startUpstream(json({ found }))
    const { code, err } = await call(
      [
        'plugin',
        'record',
        './finder.ts',
        '--request',
        'query.json',
        '--case',
        'real',
        '--options',
        `{"url":"${service.url}"}`,
      ],
      { cwd: dir },
    )
    expect([code, err]).toEqual([0, ''])
    expect(JSON.parse(await read('finder.cases/real.json'))).toEqual({
      query: { text: 'What is a?' },
      expect: {
        results: [{ url: 'https://a.example/', title: 'A', content: 'All about a.' }],
      },
    })
  })
})

describe('plugin show and list', () => {
  it('say what there is to set, and what is used', async () => {
    const { dir } = await written('guard', 'tick')
    const file = join(dir, 'tick.ts')
    const shown = JSON.parse((await call(['plugin', 'show', file, '--json'])).out)
    expect(shown).toEqual({
      kind: 'guard',
      name: 'tick',
      api: 1,
      methods: ['check'],
      options: [{ name: 'prefix', type: 'string', required: false, default: 'TICKET' }],
      enforces: ['x:tick/ticket'],
      execution: 'local',
    })
    const markdown = (await call(['plugin', 'show', file, '--markdown'])).out
    expect(markdown).toContain('| prefix | string | "TICKET" |')
    const cwd = await folder({
      'gateway.config.yaml':
        'search: { engines: { s: { use: searxng, price: "0", options: { baseURL: "http://s" } } } }',
      'node_modules/sluicegate-guard-tick/package.json': '{ "version": "2.0.0" }',
    })
    const rows = JSON.parse((await call(['plugin', 'list', '--json'], { cwd })).out)
    expect(rows).toContainEqual(expect.objectContaining({ name: 'searxng', used: true }))
    expect(rows).toContainEqual(
      expect.objectContaining({ name: 'sluicegate-guard-tick', version: '2.0.0', api: null }),
    )
  })
})
