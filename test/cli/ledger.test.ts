import { existsSync } from 'node:fs'
import { copyFile, readFile, rename, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { gzipSync, zstdCompressSync } from 'node:zlib'
import { describe, expect, it } from 'vitest'
import * as cli from '../_cli.ts'
import { ask, keyIn, type Running } from '../_cli.ts'
import { folder } from '../_folder.ts'
import { createTestGateway, hello } from '../_setup.ts'
import { loadConfig } from '../../src/config/config.ts'
import { seed } from '../../src/gateway/seed.ts'
import { unbookedLine } from '../../src/state/ledger/unconfirmed.ts'
import { openRedis } from '../../src/state/redis/engine.ts'
import { OutboxFile } from '../../src/state/redis/outbox.ts'
import { needRedis, sharedServer } from '../state/redis/_engine.ts'
import { open, settlement, SILENT, USAGE } from '../state/sqlite/_engine.ts'

const CONFIG = `
server: { port: 0 }
admin: { token: admin-token-of-the-test }
log: { access: false }
providers: { mock: { use: mock } }
models:
  mock/echo:
    pricing: { prompt: '0.000001', completion: '0.000002' }
    deployments: [{ provider: mock, model: echo }]
`
const call = (cwd: string, ...args: string[]) => cli.call(args, { cwd })
/** A folder with a configuration; by default its state is in `data`. */
const place = (config = '', files = {}) =>
  folder({ 'gateway.config.yaml': CONFIG + config, ...files })

/** Starts a gateway in a folder and waits until it answers. */
async function serve(cwd: string): Promise<Running & { readonly url: string }> {
  const running = await cli.start(['serve', '--print-key'], { cwd })
  return { ...running, url: await cli.urlOf(running) }
}

function withoutHeader(text: string): string {
  return text.slice(text.indexOf('\n') + 1)
}

/** An export with one more line before its end. */
function withLine(text: string, line: object): string {
  const lines = text.trimEnd().split('\n').slice(0, -1)
  const end = { kind: 'end', lines: lines.length + 2 }
  return [...lines, JSON.stringify(line), JSON.stringify(end), ''].join('\n')
}

describe('moving a ledger', () => {
  it('moves accounts, keys and money, once', async () => {
    const [here, there] = [await place('state: { driver: file, retention: 2 }\n'), await place()]
    const first = await serve(here)
    const secret = keyIn(first.said())
    const answer = await ask(first.url, secret, '/v1/chat/completions', hello)
    expect(answer.json.usage.cost).toBeGreaterThan(0)
    const credits = (await ask(first.url, secret, '/v1/credits')).text

    const busy = [
      await call(here, 'ledger', 'export'),
      await call(here, 'ledger', 'export', '--out', 'refused.jsonl'),
      await call(here, 'ledger', 'import', 'gateway.config.yaml'),
    ]
    for (const { code, out, err } of busy) {
      expect(err).toMatch(/^Cannot open the state: A gateway runs here already: http:[^\n]*\n$/)
      expect([code, out]).toEqual([1, ''])
    }
    expect(existsSync(join(here, 'refused.jsonl'))).toBe(false)
    const refused = await call(here, 'keys', 'list', '--data', 'data', '--json')
    expect(refused.code).toBe(1)
    expect(JSON.parse(refused.err).error.message).toMatch(
      /^Cannot open the state: A gateway runs here already: http:/,
    )
    first.child.kill('SIGKILL')
    await first.ended

    const file = join(here, 'export.jsonl')
    const written = await call(here, 'ledger', 'export', '--out', file)
    const text = await readFile(file, 'utf8')
    const count = text.trimEnd().split('\n').length
    expect(written).toEqual({ code: 0, out: `Wrote ${count} lines to ${file}.\n`, err: '' })
    expect((await stat(file)).mode & 0o077).toBe(0)
    expect(text).not.toContain(secret)
    const printed = await call(here, 'ledger', 'export')
    expect([printed.code, printed.err]).toEqual([0, ''])
    expect(withoutHeader(printed.out)).toBe(withoutHeader(text))
    const twice = await call(here, 'ledger', 'export', '--out', file)
    expect(twice).toEqual({
      code: 1,
      out: '',
      err: `${file} exists already: choose another name.\n`,
    })
    const nowhere = await call(here, 'ledger', 'export', '--out', 'no/where')
    expect(nowhere.err).toBe('There is no folder no.\n')
    expect(nowhere.code).toBe(1)

    const orphan = { kind: 'orphan', account: 'local', key: 'local', request: 'req_lost' }
    await writeFile(file, withLine(text, { ...orphan, at: Date.UTC(2027, 0, 31), cost: '0' }))
    const taken = await call(there, 'ledger', 'import', file)
    expect([taken.code, taken.err]).toEqual([0, ''])
    expect(taken.out).toBe(
      `Read ${count + 1} lines, ${count - 1} were new. Every sum equals its rows.\n`,
    )
    const again = await call(there, 'ledger', 'import', file, '--json')
    expect(JSON.parse(again.out)).toEqual({ file, lines: count + 1, added: 0, ok: true })

    await using second = await createTestGateway(
      await loadConfig({ cwd: there, env: {} }),
      undefined,
      { withAccount: false },
    )
    const { url } = second
    expect(await seed(second.gateway, { generate: true })).toEqual({ accounts: [], keys: [] })
    expect((await ask(url, secret, '/v1/credits')).text).toBe(credits)
    const key = await ask(url, secret, '/v1/key')
    expect(key.json.data.spend_usd).toBe(answer.json.usage.cost)

    const at = ['--url', url]
    const orphans = await call(there, 'ledger', 'orphans', ...at)
    const outbox = await call(there, 'ledger', 'outbox', ...at)
    const none = await call(there, 'ledger', 'orphans', '--account', 'local', '--json', ...at)
    const verified = await call(there, 'ledger', 'verify', ...at)
    const unknown = await call(there, 'ledger', 'orphans', '--account', 'nobody', ...at)
    expect(orphans.out).toMatch(
      /^AT +ACCOUNT +KEY +REQUEST\n2027-01-31T\S+ +local +local +req_lost\n$/,
    )
    expect(JSON.parse(none.out)).toMatchObject([{ request_id: 'req_lost', key_id: 'local' }])
    expect(outbox.out).toBe('ok         true\noutbox     0\noldest_ms  0\n')
    expect(verified.out).toBe('Every sum equals its rows.\n')
    expect(unknown).toEqual({ code: 1, out: '', err: 'There is no account "nobody".\n' })
  })
})

describe('a ledger that cannot be moved', () => {
  it('is reported in a sentence', async () => {
    const header = '{"kind":"export","version":1,"at":0}\n'
    const files = {
      'short.jsonl': header,
      'old.jsonl': header.replace('1', '0'),
      'bad.jsonl': `${header}{"kind":"account","account":"a","paid":"yes"}\n{"kind":"end","lines":3}\n`,
    }
    const memory = 'state: { driver: memory }\n'
    const wrong = [
      [
        memory,
        ['export'],
        'state.driver is "memory": such a ledger exists only inside a running gateway.',
      ],
      [
        memory,
        ['import', 'x'],
        'state.driver is "memory": such a ledger exists only inside a running',
      ],
      ['', ['export'], /^There is no ledger in \/\S+\/data: name its folder with --data\.$/m],
      ['', ['import', 'no.jsonl'], /^There is no file "no\.jsonl"\.$/m],
      ['', ['import', 'short.jsonl'], 'short.jsonl, line 2: the export ends early'],
      ['', ['import', 'old.jsonl'], 'old.jsonl, line 1: the export has version 0; this gateway'],
      ['', ['import', 'bad.jsonl'], 'bad.jsonl, line 2: paid: expected true or false, found "yes"'],
    ] as const
    for (const [config, args, message] of wrong) {
      const { code, out, err } = await call(await place(config, files), 'ledger', ...args)
      expect(err).toMatch(message)
      expect(err).toMatch(/^[^\n]+\n$/)
      expect([code, out]).toEqual([1, ''])
    }
  })

  it('says with what a compressed export is to be unpacked', async () => {
    const cwd = await place()
    const text = '{"kind":"export","version":2,"at":1}\n{"kind":"end","lines":2}\n'
    await writeFile(join(cwd, 'state.jsonl.gz'), gzipSync(text))
    await writeFile(join(cwd, 'state.jsonl.zst'), zstdCompressSync(text))
    for (const [file, command] of [
      ['state.jsonl.gz', 'gunzip'],
      ['state.jsonl.zst', 'unzstd'],
    ] as const) {
      const { code, out, err } = await call(cwd, 'ledger', 'import', file)
      expect(err).toBe(
        `${file}, line 1: this file is compressed: unpack it first, with "${command}".\n`,
      )
      expect([code, out]).toEqual([1, ''])
    }
  })

  it('brings nothing into an older copy of a ledger before it was accepted', async () => {
    const cwd = await place()
    const data = join(cwd, 'data')
    const [file, copy] = [join(data, 'ledger.db'), join(cwd, 'copy.db')]
    const grant = { kind: 'top-up' as const, account: 'acct', amount: 10n ** 12n, reference: 'r' }
    const settled = async (...requests: string[]) => {
      const { ledger } = await open(data)
      await ledger.book(grant)
      for (const request of requests) await ledger.settle(settlement(request, 40n))
      await ledger.close()
    }
    await settled('req_1')
    await copyFile(file, copy)
    await settled('req_2', 'req_3')
    await rename(copy, file)
    // As many rows as are missing, and other ones.
    const log = ['req_4', 'req_5'].map((request) => unbookedLine(settlement(request, 40n), 'x'))
    await writeFile(join(cwd, 'gateway.log'), `${log.join('\n')}\n`)
    const { code, err } = await call(cwd, 'ledger', 'import', 'gateway.log')
    expect(err).toMatch(
      /The ledger at .* is as of .*sluicegate ledger accept, and import after it\.\n$/,
    )
    expect(code).toBe(1)

    const { ledger } = await open(data)
    const { doubt, rows } = await ledger.state()
    expect([doubt?.kind, rows]).toEqual(['older', 2])
  })

  it('books what a log holds, as text and as JSON, once', async () => {
    const cwd = await place()
    const log = [
      '12:00:00.000 the gateway is ready',
      ...['req_1', 'req_2'].map((request) => unbookedLine(settlement(request, 40n), 'it ends')),
    ]
    const json = JSON.stringify({
      level: 'error',
      message: unbookedLine(settlement('req_3', 2n), 'x'),
    })
    await writeFile(join(cwd, 'gateway.log'), `${[...log, json].join('\n')}\n`)
    const added = []
    for (let n = 0; n < 2; n++) {
      const { out, err } = await call(cwd, 'ledger', 'import', 'gateway.log')
      added.push([/(\d+) were new/.exec(out)?.[1], err])
    }
    expect(added).toEqual([
      ['3', ''],
      ['0', ''],
    ])
    await writeFile(join(cwd, 'other.log'), '12:00:00.000 the gateway is ready\n')
    const { err } = await call(cwd, 'ledger', 'import', 'other.log')
    expect(err).toBe('other.log, line 1: this is not an export: its first line is not a header.\n')
  })

  it('is explained by --help', async () => {
    const cwd = await place()
    const family = await call(cwd, 'ledger', '--help')
    const command = await call(cwd, 'ledger', 'export', '--help')
    for (const line of [
      'ledger verify',
      'ledger orphans',
      'ledger outbox',
      'ledger import <file>',
    ]) {
      expect(family.out).toContain(line)
    }
    expect(command.out).toMatch(/--out <file> +write to this file instead of standard output/)
  })
})

describe('commands on a data folder', () => {
  it('work while no gateway runs on it, as they do with one', async () => {
    const cwd = await place()
    const data = ['--data', 'data', '--json']
    const created = await call(cwd, 'accounts', 'create', 'Acme', '--id', 'acme', ...data)
    expect([created.code, created.err]).toEqual([0, ''])
    await call(cwd, 'credits', 'add', 'acme', '5', ...data)
    const made = await call(cwd, 'keys', 'create', 'acme', '--name', 'first', ...data)
    const secret: string = JSON.parse(made.out).key
    const listed = await call(cwd, 'accounts', 'list', ...data)
    expect(JSON.parse(listed.out)).toMatchObject([{ id: 'acme', balance_usd: 5 }])
    expect(await call(cwd, 'ledger', 'verify', '--data', 'data')).toMatchObject({ code: 0 })

    const answer = await ask(await cli.served({ cwd }), secret, '/v1/chat/completions', hello)
    expect(answer.status).toBe(200)
  })

  it('begin no ledger in a folder that has none', async () => {
    const cwd = await place()
    for (const command of ['accounts list', 'ledger verify', 'credits add acme 5']) {
      const { code, err } = await call(cwd, ...command.split(' '), '--data', 'dada')
      expect([code, err]).toEqual([1, expect.stringMatching(/^There is no ledger in .*dada: name/)])
    }
    expect(existsSync(join(cwd, 'dada'))).toBe(false)
  })

  it('are refused for a ledger in memory', async () => {
    const cwd = await place('state: { driver: memory }\n')
    const { code, err } = await call(cwd, 'accounts', 'list', '--data', 'data')
    expect([code, err]).toEqual([1, expect.stringContaining('state.driver is "memory"')])
  })
})

describe('what a killed gateway left in its outbox', () => {
  needRedis()

  it('is printed for an import, and sent, and both together charge it once', async () => {
    const { url } = await sharedServer()
    const cwd = await place(`state: { driver: redis, url: '${url}', outbox: ./outbox }\n`)
    const { ledger, records } = await openRedis({ url, outbox: join(cwd, 'other'), log: SILENT })
    await ledger.book({ kind: 'top-up', account: 'acct', amount: 100n, reference: 'a' })
    const { id } = await ledger.state()
    await ledger.close()
    await records.close()
    const file = OutboxFile.open(join(cwd, 'outbox'))
    const usage = { ...USAGE, at: Date.now() }
    const left = { ...settlement('req_1', 7n), key: 'key', usage }
    await file.append({ settlement: left }, id!)
    expect(withoutHeader((await call(cwd, 'ledger', 'unsent')).out)).toMatch(
      /^\{"kind":"end","lines":2\}/,
    )
    file.close()
    const printed = await call(cwd, 'ledger', 'unsent')
    expect(printed.out).toContain('"request":"req_1"')
    await writeFile(join(cwd, 'lines.jsonl'), printed.out)
    const sent = await call(cwd, 'ledger', 'send')
    expect(sent.out).toBe('Sent 1 settlements, 0 are left.\n')
    const imported = await call(cwd, 'ledger', 'import', 'lines.jsonl')
    expect(imported.out).toContain('0 were new. Every sum equals its rows.')
    const after = await openRedis({ url, outbox: join(cwd, 'other'), log: SILENT })
    expect((await after.ledger.account('acct')).balance).toBe(93n)
    await after.ledger.close()
    await after.records.close()
    const onFile = await call(await place(), 'ledger', 'send')
    expect(onFile.err).toContain('only "redis" has an outbox')
  })
})

it('an entry that was changed in the file is found: its account, and between which places it is', async () => {
  const cwd = await place()
  await using gateway = await createTestGateway(await loadConfig({ cwd, env: {} }))
  for (let i = 0; i < 3; i++) await gateway.chat(hello)
  const verify = () => call(cwd, 'ledger', 'verify', '--chain', '--url', gateway.url)
  await expect
    .poll(async () => (await verify()).out)
    .toBe('The chains of 4 rows of 1 accounts agree with the seals of 0 months.\n')
  const db = new DatabaseSync(join(cwd, 'data', 'ledger.db'))
  db.exec("UPDATE usage SET cost = cost + 1 WHERE kind = 'usage' AND seq = 3")
  db.close()
  const found = await verify()
  expect(found.code).toBe(1)
  expect(found.out).toMatch(/^acme +begin \(0\) +index \(4\) +4$/m)
  const unknown = await call(cwd, 'ledger', 'verify', '--root', 'ab', '--url', gateway.url)
  expect(unknown.err).toContain('--export, --archive and --root belong to --chain')
})
