import { once } from 'node:events'
import { readFile, stat } from 'node:fs/promises'
import { createServer as createHttpServer } from 'node:http'
import { createServer, type AddressInfo } from 'node:net'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it, onTestFinished, vi } from 'vitest'
import { connect } from '../../src/cli/admin.ts'
import { COMMANDS } from '../../src/cli/commands.ts'
import { setLimit } from '../../src/cli/limits.ts'
import { ask, inMemory, keyIn, PACED_CONFIG as CONFIG, TOKEN } from '../_cli.ts'
import { folder } from '../_folder.ts'
import { createTestGateway, hello, MOCK_CONFIG, type TestGateway } from '../_setup.ts'

const { run, call, served } = inMemory
const CHAT = '/v1/chat/completions'

function argumentsOf([, url, , token]: readonly string[]) {
  return { positionals: [], text: { url, token }, all: {}, on: new Set<string>() }
}

describe('a mistake in the arguments', () => {
  it.each([
    [['srve'], /no command "srve"; did you mean "serve"\?/],
    [['xyzzy'], /no command "xyzzy"; .*--help/],
    [['keys'], /"keys" needs a command; it has list, create/],
    [['keys', 'lst'], /did you mean "keys list"\?/],
    [['accounts', 'show'], /Missing <account>.*Usage: .* accounts show <account>/s],
    [['credits', 'add'], /Missing <account> and <usd>/],
    [['keys', 'show', 'a', 'b'], /"b" is one argument too many/],
    [['keys', 'create', 'a', '--nam', 'x'], /no option --nam; did you mean --name\?/],
    [['models', '--token'], /--token needs a value: --token <token>/],
    [['models', '--token', '--json'], /--token needs a value/],
    [['models', '--json=1'], /--json takes no value/],
    [['serve', '--port', 'http'], /--port takes a number from 0 to 65535, not "http"/],
    [['serve', '--port', '65536'], /--port takes a number/],
    [['usage', '--from', '7'], /, today or yesterday, or a length back from now such as 12h/],
    [['keys', 'update', 'a', '--expires', '30'], /or tomorrow, or a length from now on .*"30"/],
  ])('%j ends with status 2 and a message', async (args, message) => {
    const { code, out, err } = await call(args)
    expect(err).toMatch(message)
    expect([code, out]).toEqual([2, ''])
  })

  it('is a pair of options that exclude each other, before a request', async () => {
    let found = 0
    for (const { name, arguments: names = [], options = {} } of COMMANDS) {
      for (const [one, other] of [
        ['json', 'csv'],
        ['data', 'url'],
        ['data', 'token'],
        ['limit', 'all'],
        ['for', 'seconds'],
        ['cases', 'input'],
        ['cases', 'output'],
      ] as const) {
        if (!(one in options && other in options)) continue
        const words = [one, other].flatMap((option) => [
          `--${option}`,
          ...(options[option]!.value ? ['7d'] : []),
        ])
        const { code, out, err } = await call([...name.split(' '), ...names, ...words])
        expect([code, out, err]).toEqual([
          2,
          '',
          expect.stringContaining(`--${one} and --${other} exclude each other: give one of them.`),
        ])
        found++
      }
    }
    expect(found).toBeGreaterThan(100)
    const { err } = await call(['keys', 'list', '--json', '--csv'])
    expect(JSON.parse(err).error.message).toContain('exclude each other')
    const at = ['--url', 'http://127.0.0.1:9', '--token', 'x']
    const session = await call(['sessions', 'end', 'ses_1', '--subject', 'token:tok_1', ...at])
    expect([session.code, session.err]).toEqual([2, expect.stringContaining('Name a session, or')])
  })

  it('is the status of the process', async () => {
    const { code, out, err } = await run(['srve'])
    expect([code, out, err]).toEqual([2, '', expect.stringContaining('did you mean "serve"?')])
  })

  it('of a command for a running gateway is found before a request', async () => {
    const options = ['--url', 'http://127.0.0.1:9', '--token', 'x']
    for (const [args, message] of [
      [['keys', 'create', 'acme'], /--name <text>/],
      [['keys', 'update', 'key'], /Nothing to change/],
      [['keys', 'update', 'key', '--rpm', 'many'], /--rpm takes a whole number or "none"/],
      [['keys', 'update', 'key', '--policy', 'no.json'], /policy cannot be read from no.json/],
    ] as const) {
      const { code, err } = await call([...args, ...options])
      expect(err).toMatch(message)
      expect(code).toBe(2)
    }
  })
})

describe('help', () => {
  it('lists the commands on one screen', async () => {
    const answers = [await call(['--help']), await call(['help']), await call(['-h'])]
    for (const { code, out, err } of answers) {
      expect([code, err]).toEqual([0, ''])
      for (const word of ['serve, ', 'check', /keys +list create /, /ledger +verify /]) {
        expect(out).toMatch(word)
      }
      const lines = out.split('\n')
      expect(lines.length).toBeLessThanOrEqual(40)
      expect(lines.filter((line) => line.length > 80)).toEqual([])
    }
    const { out } = await call(['--help', '--all'])
    for (const { name } of COMMANDS) expect(out).toContain(`  ${name}`)
  })

  it('of every command has its options before what all share, in order', async () => {
    for (const { name, options = {}, example, help } of COMMANDS) {
      expect(help.length, name).toBeLessThanOrEqual(76)
      const { out } = await call([...name.split(' '), '--help'])
      const [own, common] = out.split('\nCommon options:\n')
      const missing = Object.keys(options).filter((one) => !out.includes(`  --${one}`))
      expect([name, missing]).toEqual([name, []])
      const parts = ['Usage: ', 'Options:', 'Related commands:', 'Example:', 'More: ']
      const places = parts.map((part) => own!.indexOf(`\n${part}`)).filter((at) => at >= 0)
      expect(places, name).toEqual(places.toSorted((one, other) => one - other))
      expect(own!.includes('\nExample:'), name).toBe(example !== undefined)
      expect(common!.trimEnd(), name).not.toContain('\n\n')
    }
  })

  it('lists the options of a command, or the commands of a family', async () => {
    const command = await call(['keys', 'create', '--help'])
    expect(command.out).toMatch(/keys create <account> \[options\][^]*--cap <usd/)
    const family = await call(['keys', '--help'])
    expect(family.out).toContain('keys disable <key>')
    expect(family.out).not.toContain('serve')
    // A command of one word that others begin with has options of its own.
    for (const [name, option] of [
      ['usage', '--rollup'],
      ['models', '--json'],
    ] as const) {
      const both = await call([name, '--help'])
      expect(both.out).toContain(option)
      expect(both.out).toContain(`${name} ${name === 'usage' ? 'verify' : 'lint'}`)
    }
    expect([command.code, family.code]).toEqual([0, 0])
  })
})

describe('version', () => {
  it('tells what runs', async () => {
    const { version } = JSON.parse(await readFile('package.json', 'utf8'))
    const { out } = await call(['--version'])
    expect(out).toMatch(
      new RegExp(`^sluicegate ${version} \\(node 2\\d\\.\\S+, sqlite 3\\.\\S+\\)\\n$`),
    )
    expect(JSON.parse((await call(['-v', '--json'])).out)).toMatchObject({ version })
  })
})

describe('serve', () => {
  it('refuses a first key that is none, by the name of its variable', async () => {
    const env = { SLUICEGATE_FIRST_KEY: 'short' }
    const { code, err } = await call(['serve', '--port', '0'], { env })
    expect(err).toMatch(/SLUICEGATE_FIRST_KEY[^]*8 to 512 visible/)
    expect(code).toBe(1)
  })

  it('says with log.format json why it cannot start, as a line of JSON', async () => {
    const cwd = await folder({ 'gateway.config.yaml': 'sever: {}\n' })
    const env = { SLUICEGATE__LOG__FORMAT: 'json' }
    const { code, err } = await call(['serve'], { cwd, env })
    expect(JSON.parse(err)).toMatchObject({
      level: 'fatal',
      event: 'fatal',
      message: expect.stringContaining('is not valid'),
      issues: [{ path: 'sever' }],
    })
    expect(code).toBe(1)
  })

  it('names a port that is in use, and the remedy', async () => {
    const other = createServer()
    await once(other.listen(0, '127.0.0.1'), 'listening')
    onTestFinished(() => void other.close())
    const { port } = other.address() as AddressInfo
    const where = { cwd: await folder({}), env: { SLUICEGATE__STATE: '{"driver":"file"}' } }
    const { code, err } = await call(['serve', '--print-key', '--port', String(port)], where)
    expect(err).toContain(
      `Cannot listen on 127.0.0.1, port ${port}: another process uses this port`,
    )
    expect(err).toContain('--port')
    expect(code).toBe(1)
    // The first key is made by the start that shows it.
    const listed = await call(['accounts', 'list', '--data', 'data'], where)
    expect(listed).toEqual({ code: 0, out: 'There are none.\n', err: '' })
  })
})

describe('init and check', () => {
  it('write a configuration that serves, with an admin token that works', async () => {
    const cwd = await folder({})
    const { code, out } = await call(['init'], { cwd })
    expect([code, out]).toEqual([0, expect.stringContaining('gateway.config.yaml')])
    const env = await readFile(join(cwd, '.env'), 'utf8')
    const token = /^SLUICEGATE_ADMIN_TOKEN=([\w-]{32})\n$/.exec(env)![1]!
    expect((await stat(join(cwd, '.env'))).mode & 0o077).toBe(0)
    expect(out).not.toContain(token)
    // It is read in a terminal.
    const lines = (await readFile(join(cwd, 'gateway.config.yaml'), 'utf8')).split('\n')
    expect(lines.filter((line) => line.length > 80)).toEqual([])
    expect(await readFile(join(cwd, '.gitignore'), 'utf8')).toBe('.env\ndata/\n')

    const check = await call(['check'], { cwd })
    expect(check.out).toMatch(
      /^\d+ of \d+ models? served\ngateway\.config\.yaml is valid: \d+ models in all\.\n[^]*mock\/echo +streaming \S/,
    )
    expect(check.out).not.toContain(token)
    expect(check.out).not.toContain('unknown capabilities')
    const json = await call(['check', '--json'], { cwd })
    expect(JSON.parse(json.out).models).toContainEqual(
      expect.objectContaining({ id: 'mock/echo', modality: 'chat' }),
    )

    const url = await served({ cwd })
    const accounts = await call(['accounts', 'list', '--url', url], { cwd })
    expect(accounts.out).toMatch(/^ID +NAME[^]*\nlocal +Local +10 +paid +1\n$/)
  })

  it('overwrite files only with --force, and never a token', async () => {
    const own = { 'gateway.config.yaml': '# mine\n', '.env': 'OTHER=1', '.gitignore': 'mine\n' }
    const cwd = await folder(own)
    const refused = await call(['init'], { cwd })
    expect(refused.err).toMatch(/gateway\.config\.yaml exists already; --force overwrites it/)
    expect(refused.code).toBe(1)
    expect(await readFile(join(cwd, 'gateway.config.yaml'), 'utf8')).toBe('# mine\n')
    expect((await call(['init', '--force'], { cwd })).code).toBe(0)
    const env = await readFile(join(cwd, '.env'), 'utf8')
    expect(env).toMatch(/^OTHER=1\nSLUICEGATE_ADMIN_TOKEN=\S+\n$/)
    expect((await call(['init', '--force', '--json'], { cwd })).out).toContain(
      '"token_added": false',
    )
    expect(await readFile(join(cwd, '.env'), 'utf8')).toBe(env)
    expect(await readFile(join(cwd, '.gitignore'), 'utf8')).toBe('mine\n')
  })

  it('find all mistakes', async () => {
    const broken = CONFIG.replace("'0.000001'", '0.000001').replace('use: mock', 'use: mokc')
    const cwd = await folder({ 'gateway.config.yaml': broken })
    const { code, err } = await call(['check'], { cwd })
    expect(err).toMatch(/models\.mock\/echo\.pricing\.prompt +expected a decimal string/)
    expect(code).toBe(1)
    const plugin = CONFIG.replace('use: mock', 'use: mokc')
    const second = await call(['check'], { cwd: await folder({ 'gateway.config.yaml': plugin }) })
    expect(second.err).toMatch(/providers\.mock\.use .*mokc/)
    expect(second.code).toBe(1)
  })

  it('name a configuration that does not exist', async () => {
    const { code, err } = await call(['check', '--config', 'no.yaml'])
    expect([code, err]).toEqual([1, expect.stringContaining('no.yaml')])
  })
})

describe('commands of a running gateway', () => {
  let t: TestGateway
  beforeAll(async () => {
    t = await createTestGateway({ ...MOCK_CONFIG, admin: { token: TOKEN } })
  })
  afterAll(() => t.close())

  const at = () => ['--url', t.url, '--token', TOKEN]

  it('set limits of one owner at the same time, and lose none', async () => {
    const { id } = await t.newKey()
    const admin = await connect(argumentsOf(at()))
    const write = vi.spyOn(process.stdout, 'write').mockReturnValue(true)
    try {
      const values = { 'cap.week': '5', 'tokens.minute': '40000', 'requests.day': '200' }
      const setting = Object.entries(values).map(([name, value]) =>
        setLimit(admin, { ...argumentsOf(at()), positionals: [`key:${id}`, name, value] }),
      )
      await Promise.all(setting)
      const { data } = await admin.ask('GET', `/keys/${id}`)
      const set = data.limits.map(({ unit, window }: any) => `${unit} ${window}`)
      expect(set).toEqual(expect.arrayContaining(['usd week', 'tokens minute', 'requests day']))
    } finally {
      write.mockRestore()
      await admin.close()
    }
  })

  it('create an account, add credits, create a key, and show its calls', async () => {
    const { url } = t
    const cwd = await folder({
      'policy.json': '{"version":1,"maxOutputTokens":50}',
      'wrong.json': '{"version":1,"deny":"code"}',
    })
    const command = (...args: string[]) => call([...args, ...at()], { cwd })
    const account = await command('accounts', 'create', 'Acme Ltd', '--id', 'corp')
    expect([account.code, account.err]).toEqual([0, ''])
    expect(account.out).toMatch(/^Account Acme Ltd \(corp\) created\.\n$/)

    const promo = ['--promo', '--expires', '30d', '--reference', 'welcome']
    expect(await command('credits', 'add', 'corp', '1', ...promo)).toMatchObject({ code: 0 })
    const ends = JSON.parse((await command('credits', 'show', 'corp', '--json')).out)
    expect(Date.parse(ends.credit.blocks[0].expires_at)).toBeGreaterThan(Date.now())
    await command(
      'credits',
      'adjust',
      'corp',
      '-1',
      '--from',
      'promo:welcome',
      '--reason',
      'taken back',
      '--yes',
    )
    const paid = await command('credits', 'add', 'corp', '12.50', '--reference', 'invoice 1')
    expect(paid.out).toMatch(/^Account .+ \(corp\): 12\.5 USD booked\. Balance: 12\.5 USD\.\n$/)
    const twice = await command('credits', 'add', 'corp', '12.50', '--reference', 'invoice 1')
    expect(twice.out).toContain('booked before, nothing was changed. Balance: 12.5 USD.\n')
    const other = await command('credits', 'add', 'corp', '125', '--reference', 'invoice 1')
    expect([other.code, other.err]).toEqual([1, expect.stringContaining('with 12.5 USD before')])

    // What the gateway refuses is named as it was given, and is a wrong call.
    for (const [words, named] of [
      [['credits', 'add', 'corp', '5,00'], 'Invalid <usd>: expected '],
      [['credits', 'add', 'corp', '1', '--expires', '2020-01-01'], '--expires'],
      [['keys', 'create', 'corp', '--name', 'x', '--cap', '5 USD'], 'Invalid --cap: expected '],
      [['keys', 'create', 'corp', '--name', 'x', '--cap', '5/week'], 'Invalid --cap: expected '],
      [['keys', 'create', 'corp', '--name', 'x', '--policy', 'wrong.json'], '--policy (deny)'],
      [['accounts', 'update', 'corp', '--time-zone', 'Europe'], '--time-zone'],
      [['limits', 'set', 'account:corp', 'cap.week', '5 USD'], '<limit>: The value has to be '],
      [['usage', '--by', 'kye'], 'Invalid --by: expected '],
      [['statement', 'corp', '--month', 'november'], 'Invalid --month: expected '],
      [['audit', 'list', '--limit', '0'], '--limit'],
    ] as const) {
      const { code, out, err } = await command(...words)
      expect([code, out, err], words.join(' ')).toEqual([2, '', expect.stringContaining(named)])
    }
    const settings = ['--rpm', '60', '--cap', '5/month', '--models', 'mock/echo, mock/nothing']
    const policy = ['--policy', 'policy.json', '--expires', '2099-01-31']
    const made = await command('keys', 'create', 'corp', '--name', 'Laptop', ...settings, ...policy)
    expect(made.err).toBe('')
    expect(made.out).toMatch(/^Key Laptop \(\S+\) created\.\n/)
    expect(made.out).toContain('warning: the catalog has no model "mock/nothing"')
    expect(made.out).toMatch(/The secret is shown only now:\n\nsk-sluice-\S+\n$/)
    const secret = keyIn(made.out.slice(made.out.indexOf('only now')))
    const id = /\((key_\S+)\)/.exec(made.out)![1]!
    const answer = await ask(url, secret, CHAT, hello)
    expect(answer.status, answer.text).toBe(200)

    const shown = JSON.parse((await command('keys', 'show', id, '--json')).out)
    const brief = await command('keys', 'update', id, '--expires', 'tomorrow')
    expect(brief.out).toMatch(/: expires_at 2099-01-31T\S+ → \d{4}-\d\d-\d\dT00:00:00\.000Z\.$/m)
    await command('keys', 'update', id, '--expires', '2099-01-31')
    expect(shown).toMatchObject({
      rpm_limit: 60,
      spend_cap: { usd: '5', scope: 'month' },
      models: ['mock/echo', 'mock/nothing'],
      policy: { version: 1, maxOutputTokens: 50 },
      expires_at: '2099-01-31T00:00:00.000Z',
      spend_usd: answer.json.usage.cost,
    })
    const list = await command('keys', 'list', '--account', 'corp')
    expect(list.out).toMatch(/Laptop +sk-sluice-\S+ +active/)
    expect(list.out).not.toContain(secret)

    const changed = await command('keys', 'update', id, '--models', 'none', '--cap', 'none')
    expect(changed.out).toMatch(/^Key Laptop \(\S+\) updated: .*spend_cap\S* \S.* → none/)
    await command('keys', 'disable', id)
    expect((await ask(url, secret, CHAT, hello)).status).toBe(401)
    expect((await command('keys', 'list')).out).toMatch(/Laptop .* disabled/)
    await command('keys', 'enable', id)
    expect((await ask(url, secret, CHAT, hello)).status).toBe(200)

    const credits = await command('credits', 'show', 'corp')
    expect(credits.out).toMatch(/top-up +12\.5 .* invoice 1\n/)
    expect(credits.out).toContain(answer.headers['x-service-request-id'])
    expect((await command('models')).out).toMatch(/mock\/echo +chat +mock\/echo +healthy/)
    const some = await command('models', '--vendor', 'mock', '--find', 'ECH')
    expect(some.out.match(/^mock\/\S+/gm)).toEqual(['mock/echo'])
    expect((await command('models', '--used', 'long')).err).toMatch(/--used.*1d/)
    expect((await command('models', 'show', 'echo')).out).toMatch(
      /^id +mock\/echo\n[^]*^modality +chat$/m,
    )
    expect((await command('models', 'show', 'mock/ech')).err).toContain('mock/echo')
    expect((await command('ledger', 'verify')).out).toBe('Every sum equals its rows.\n')
  })

  it('name keys and accounts as people do, and stop a leaked key by its secret', async () => {
    const cwd = await folder({})
    const command = (...args: string[]) => call([...args, ...at()], { cwd })
    await command('accounts', 'create', 'Named Ltd', '--id', 'named')
    const make = async (name: string) => {
      const { out } = await command('keys', 'create', 'Named Ltd', '--name', name)
      return {
        id: /\((key_\S+)\)/.exec(out)![1]!,
        secret: keyIn(out.slice(out.indexOf('only now'))),
      }
    }
    const [laptop, leaked] = [await make('Old laptop'), await make('Leaked')]
    const idOf = async (...args: string[]) =>
      /^id +(\S+)$/m.exec((await command('keys', 'show', ...args)).out)?.[1]
    expect(await idOf('Old laptop')).toBe(laptop.id)
    expect(await idOf('old laptop')).toBeUndefined()
    expect(await idOf(laptop.id.slice(0, 12))).toBe(laptop.id)
    expect(await idOf(laptop.secret.slice(0, 14))).toBe(laptop.id)
    expect((await command('keys', 'disable', 'laptop-x')).err).toMatch(
      /^There is no key "laptop-x"\.$/m,
    )
    expect((await command('keys', 'disable', 'd lapt')).err).toBe(
      'There is no key "d lapt". Did you mean "Old laptop"?\n',
    )
    const twin = await make('Old laptop')
    const several = await command('keys', 'disable', 'Old laptop')
    expect(several.err).toMatch(/^Several keys are called "Old laptop"; name one by its id:\n/)
    expect(several.err).toContain(`${laptop.id}  Old laptop  active`)
    expect(await command('keys', 'archive', twin.id)).toMatchObject({
      code: 2,
      err: '"keys archive" is final: without a terminal it needs --yes.\n',
    })
    await command('keys', 'archive', twin.id, '--yes')
    expect(await idOf('Old laptop')).toBe(laptop.id)
    expect((await command('limits', 'set', 'Old laptop', 'cap.week', '5')).out).toMatch(
      /^key\.cap\.week +5 /m,
    )
    const raised = await command('limits', 'raise', 'Old laptop', 'cap.week', '9', '--until', '6h')
    expect(raised.out).toBe('cap.week of Old laptop is raised to 9.\n')
    expect((await command('limits', 'show', 'account:Named Ltd')).code).toBe(0)
    expect((await command('limits', 'show', 'team:none')).err).toBe('There is no team "none".\n')
    expect((await command('limits', 'show', 'Named Ltd')).err).toBe(
      'There is no key "Named Ltd". A team is named team:<name>, an account account:<name>.\n',
    )

    const ofAccount = await command('keys', 'list', '--account', 'Named Ltd')
    expect(ofAccount.out).toContain(laptop.id)
    const calls = await command('requests', 'list', '--key', 'd lapt', '--account', 'Named Ltd')
    expect(calls).toMatchObject({
      code: 1,
      err: expect.stringContaining('There is no key "d lapt". Did you mean "Old laptop"'),
    })
    const moved = await command('keys', 'update', laptop.id, '--team', 'none', '--note', 'a')
    expect([moved.code, moved.err]).toEqual([0, ''])

    // It is known, and its account has no money.
    expect((await ask(t.url, leaked.secret, CHAT, hello)).status).toBe(403)
    const stopped = await command('keys', 'disable', leaked.secret)
    expect(stopped.out).toContain(leaked.id)
    expect(stopped.out + stopped.err).not.toContain(leaked.secret)
    expect((await ask(t.url, leaked.secret, CHAT, hello)).status).toBe(401)
    expect((await command('keys', 'show', `${leaked.secret}x`)).err).toBe(
      'No key has this secret.\n',
    )
    expect((await command('accounts', 'show', 'Named Ltd')).out).toMatch(/^id +named$/m)
  })

  it('correct a balance either way, once per reference', async () => {
    await call(['accounts', 'create', 'Corrected', '--id', 'corrected', ...at()])
    const adjust = (...args: string[]) => call(['credits', 'adjust', ...args, '--yes', ...at()])
    const reason = ['--reason', 'charged twice']
    const taken = await adjust('corrected', '-2.50', ...reason, '--reference', '-4')
    expect([taken.code, taken.err]).toEqual([0, ''])
    expect(taken.out).toContain(': -2.5 USD booked. Balance: -2.5 USD.')
    const again = await adjust(...reason, '--reference', '-4', 'corrected', '-2.50')
    expect(again.out).toContain('booked before, nothing was changed. Balance: -2.5 USD.')
    expect((await adjust('corrected', '3', ...reason)).out).toContain('Balance: 0.5 USD.')
    const shown = await call(['credits', 'show', 'corrected', ...at()])
    expect(shown.out).toMatch(/adjust +-2\.5 +charged twice +-4\n/)
    const changes = await call(['audit', 'list', '--object', 'account:corrected', ...at()])
    expect(changes.out).toMatch(/admin +account\.adjust +account:corrected +usd +- +-2\.5\n/)
    const none = await call(['audit', 'list', '--action', 'nothing', ...at()])
    expect(none.out).toBe('There are none.\n')
    const missing = await adjust('corrected', '-1')
    expect([missing.code, missing.err]).toEqual([
      2,
      expect.stringMatching(/--reason <text> is required/),
    ])
    const option = await adjust('corrected', '-x', ...reason)
    expect([option.code, option.err]).toEqual([2, expect.stringMatching(/^There is no option -x/)])
  })

  it('print large amounts to the last digit', async () => {
    await call(['accounts', 'create', 'Rich', '--id', 'rich', ...at()])
    await call(['credits', 'add', 'rich', '3999999.000000000001', ...at()])
    const show = ['accounts', 'show', 'rich', ...at()]
    for (const { out } of [await call([...show, '--json']), await call(show)]) {
      expect(out).toContain('3999999.000000000001')
    }
  })

  it('print errors of the gateway', async () => {
    // By default the token of the configuration is used.
    const cwd = await folder({ 'gateway.config.yaml': CONFIG })
    const command = (...args: string[]) => call([...args, '--url', t.url], { cwd })
    const unknown = await command('accounts', 'show', 'nobody')
    expect([unknown.code, unknown.out]).toEqual([1, ''])
    expect(unknown.err).toBe('There is no account "nobody".\n')
    const wrong = await command('credits', 'add', 'acme', 'ten')
    expect(wrong.err).toMatch(/<usd>: expected a decimal string/)
    const token = await command('models', '--token', 'not-the-token')
    expect(token.err).toBe(`The gateway at ${t.url} does not know the admin token of --token.\n`)
    await command('tokens', 'create', 'nightly', '--role', 'viewer')
    const token404 = await command('tokens', 'end', 'nigthly', '--yes')
    expect(token404.err).toBe('There is no token "nigthly". Did you mean "nightly"?\n')
    const payment = await command('payments', 'link', 'acme', '25')
    expect(payment.err).toBe('Customers cannot pay: the configuration has no "payments".\n')
    const future = await command('usage', '--from', '2999-01-01')
    expect(future.err).toBe('Invalid --from: expected a moment that is over.\n')
    const turned = await command('requests', 'list', '--from', '2h', '--to', '1d')
    expect(turned.err).toBe("Invalid --from: expected a moment before 'to'.\n")
    const price = await call(['models', 'price', 'no/such'], { cwd })
    expect(price.err).toBe('There is no model "no/such". "sluicegate check --models" lists them.\n')
    const tables = await call(['import', 'new-api', '--tables', 'none'], { cwd })
    expect(tables.err).toBe(
      'none cannot be imported: there is no such folder. Nothing was written.\n',
    )
    const host = await call(['models', '--url', '127.0.0.1:8787', '--token', 'x'])
    expect([host.code, host.err]).toEqual([
      2,
      '--url takes an address such as http://127.0.0.1:8787, not "127.0.0.1:8787".\n',
    ])
  })

  it('end with status 1 when the ledger does not add up', async () => {
    const wrong = { account_id: 'acme', what: 'balance', stored: 1, recomputed: 2 }
    const other = createHttpServer((_, response) => {
      response.end(JSON.stringify({ data: { ok: false, discrepancies: [wrong] } }))
    })
    await once(other.listen(0, '127.0.0.1'), 'listening')
    onTestFinished(() => void other.close())
    const url = `http://127.0.0.1:${(other.address() as AddressInfo).port}`
    const { code, out, err } = await call(['ledger', 'verify', '--url', url, '--token', 'x'])
    expect(out).toMatch(/\nacme +balance +1 +2\n/)
    expect([code, err]).toEqual([
      1,
      'The ledger does not add up: the table names each sum that its rows contradict.\n',
    ])
  })

  it('report an address without a server, or without a gateway', async () => {
    const other = createHttpServer((_, response) => void response.end('hi'))
    await once(other.listen(0, '127.0.0.1'), 'listening')
    const url = `http://127.0.0.1:${(other.address() as AddressInfo).port}`
    const options = ['--url', url, '--token', 'x']
    const stranger = await call(['models', ...options])
    expect(stranger.err).toMatch(/is not a gateway \(status 200\)/)
    other.close().closeAllConnections()
    await once(other, 'close')
    const absent = await call(['models', ...options])
    expect(absent.err).toBe(
      `No gateway answers at ${url}; start one with "sluicegate", or name it with --url.\n`,
    )
    expect([stranger.code, absent.code]).toEqual([1, 1])
  })

  it('meet neither admin API nor console where these are switched off', async () => {
    const cwd = await folder({ 'gateway.config.yaml': 'extends: starter\nadmin: false\n' })
    const url = await served({ cwd })
    for (const path of ['/admin/models', '/console', '/me', '/metrics']) {
      expect([path, (await ask(url, 'x', path)).status]).toEqual([path, 404])
    }
    await expect(stat(join(cwd, 'data/admin-token'))).rejects.toThrow('ENOENT')
    const { err } = await call(['models', '--url', url], { cwd })
    expect(err).toBe('There is no admin token: the configuration has admin.enabled: false.\n')
  })

  it('explain how to enable the admin API', async () => {
    await using other = await createTestGateway()
    const { url } = other
    const { code, err } = await call(['models', '--url', url, '--token', 'x'])
    expect(err).toMatch(/has no admin API: set SLUICEGATE_ADMIN_TOKEN/)
    expect(code).toBe(1)
    const without = await call(['models', '--url', url])
    expect(without.err).toMatch(/There is no admin token: set SLUICEGATE_ADMIN_TOKEN/)
    const env = { SLUICEGATE__STATE: '{"driver":"file","path":"./data"}' }
    const early = await call(['models'], { cwd: await folder({}), env })
    expect(early.err).toMatch(/^There is no admin token: no gateway has started in \S+data\. /)
    const environment = { env: { SLUICEGATE_ADMIN_TOKEN: 'x' } }
    expect((await call(['models', '--url', url], environment)).err).toMatch(/has no admin API/)
  })
})
