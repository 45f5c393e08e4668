/**
 * What people do with the console, by a pointer and by keys alone. Clicks, keys and letters are counted and bounded; seconds are
 * printed.
 */
import { createServer } from 'node:http'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import type { Page } from 'playwright-core'
import { loadConfig } from '../../src/config/config.ts'
import { createTestGateway, MOCK_CONFIG, hello } from '../_setup.ts'
import { configuration, PLANTED } from '../gateway/_managed.ts'
import { json, startUpstream } from '../upstream.ts'
import { fakeProvider, paymentsOf } from '../payments/_provider.ts'
import { browsed, hasBrowser, settled, Stage, TOKEN, type Watched } from './_browser.ts'
import { furnish } from './_furniture.ts'
import { Keyboard, Pointer, type Hands } from './_hands.ts'

const KINDS = [
  { kind: 'keys', Kind: Keyboard },
  { kind: 'clicks', Kind: Pointer },
] as const
type Kind = (typeof KINDS)[number]
/** The tab of an account with its statements. */
const STATEMENTS = '6'

/** Most clicks or keys, and most letters. */
type Bound = readonly [count: number, letters: number]
/** @param before what the same took in the console of before; a dash where it was not possible */
interface Task {
  readonly before: string
  readonly clicks: Bound
  readonly keys: Bound
}

/** A gateway of a file: vendors and models are set up beside that. */
const filed = browsed(async (cwd) => {
  const { providers, models } = MOCK_CONFIG
  const config = configuration({ admin: { token: TOKEN }, providers, models })
  writeFileSync(join(cwd, 'gateway.config.json'), JSON.stringify(config))
  return createTestGateway(await loadConfig({ cwd, env: {} }), cwd)
})
const onFile = (method: string, path: string, body?: object) =>
  filed.gateway.ask(method, `/admin${path}`, { key: TOKEN, body })
const entriesOnFile = async (): Promise<readonly { section: string; name: string }[]> =>
  (await onFile('GET', '/managed')).json.data.entries

/** Removes what an earlier test has set up. */
async function clearFile(): Promise<void> {
  const all = await entriesOnFile()
  const changes = all.map(({ section, name }) => ({ section, name, value: null }))
  if (all.length > 0) expect((await onFile('POST', '/managed', { changes })).status).toBe(200)
}

let stage: Stage
let payPage: ReturnType<typeof createServer>
const figures: string[] = []

beforeAll(async () => {
  if (!hasBrowser) return
  payPage = createServer((_, response) => {
    response.writeHead(200, { 'content-type': 'text/html' }).end('<h1>Pay here</h1>')
  }).listen(0, '127.0.0.1')
  await once(payPage, 'listening')
  const { port } = payPage.address() as AddressInfo
  const { payments } = paymentsOf(fakeProvider(`http://127.0.0.1:${port}`))
  stage = await Stage.open({
    payments,
    server: { publicUrl: 'http://localhost:8787' },
    providers: {
      ...MOCK_CONFIG.providers,
      dead: {
        use: 'openai-compatible',
        options: { baseURL: 'http://127.0.0.1:9/v1', apiKey: 'key-of-a-vendor' },
      },
    },
    models: {
      'mock/unreachable': {
        pricing: { prompt: '0.000001', completion: '0.000002' },
        deployments: [{ provider: 'dead', model: 'm' }],
      },
    },
  })
  await furnish(stage)
})
afterAll(async () => {
  if (!hasBrowser) return
  process.stdout.write(`\ntask | before | bound | now\n${figures.toSorted().join('\n')}\n`)
  await stage[Symbol.asyncDispose]()
  payPage.close()
})

/** One more from five clicks on; two keys or 15 %; four letters. */
function most([count, letters]: Bound, kind: Kind['kind']): Bound {
  const more = kind === 'clicks' ? (count >= 5 ? 1 : 0) : Math.max(2, Math.floor(count * 0.15))
  return [count + more, letters + 4]
}

/** Does a task, and counts it. @param path where the hands begin */
async function doing(
  name: string,
  task: Task,
  { kind, Kind }: Kind,
  work: (hands: Hands, page: Page) => Promise<void>,
  path = '/console',
  visit: Parameters<Stage['page']>[0] = {},
  signIn: (page: Page) => Promise<unknown> = () => Promise.resolve(),
  pages: Pick<Stage, 'page'> = stage,
): Promise<void> {
  const { page, faults }: Watched = await pages.page(visit)
  await signIn(page)
  await page.goto(path)
  await settled(page)
  const hands = new Kind(page)
  const began = performance.now()
  await work(hands, page)
  const seconds = ((performance.now() - began) / 1000).toFixed(1)
  const bound = task[kind].join('+')
  const figure = `${name}, ${kind} | ${task.before} | ${bound} | ${hands.count}+${hands.letters}, ${seconds} s`
  process.stdout.write(`TASK ${figure}\n`)
  figures.push(figure)
  const [count, letters] = most(task[kind], kind)
  expect.soft(faults).toEqual([])
  expect.soft(hands.count, `${kind} of ${name}`).toBeLessThanOrEqual(count)
  expect.soft(hands.letters, `letters of ${name}`).toBeLessThanOrEqual(letters)
  await page.context().close()
}

const task = (before: string, clicks: Bound, keys: Bound): Task => ({ before, clicks, keys })

/** A fresh account with a key, whose names have the kind of hands. */
async function kit({ kind }: Kind, word: string) {
  const name = `${word} ${kind}`
  const taken = await stage.gateway.gateway.runtime.accounts.listAccounts()
  // A test that is repeated has its own.
  const more = taken.filter(({ id }) => id.startsWith(`${word.toLowerCase()}-${kind}`)).length
  const account = `${word.toLowerCase()}-${kind}${more || ''}`
  await stage.gateway.newAccount(account, '25')
  const key = await stage.gateway.newKey({ account, name, logContent: true })
  return { account, ...key, name }
}

describe.skipIf(!hasBrowser).each(KINDS)('with $kind', (hands) => {
  it('signs in by the link that the start printed', async () => {
    const { json } = await stage.admin('POST', '/session/once', {})
    const bound = task('0; 0', [0, 0], [0, 0])
    await doing(
      'sign in by the printed link',
      bound,
      hands,
      async (_, page) => page.locator('h1:has-text("Overview")').waitFor(),
      `/console#token=${json.data.token}`,
      { token: undefined },
    )
  })

  it('finds why a call failed', async () => {
    for (let i = 0; i < 2; i++) await stage.gateway.chat({ ...hello, model: 'mock/unreachable' })
    await doing(
      'why a call failed, id not known',
      task('2; 53, no cause', [2, 0], [6, 0]),
      hands,
      async (own, page) => {
        await page.locator('.incident', { hasText: 'mock/unreachable' }).waitFor()
        const line = page.locator('.incident', { hasText: 'mock/unreachable' })
        if (hands.kind === 'clicks')
          await own.press(await line.locator('[data-figure]').innerText())
        else {
          await own.place('Requests', 'r')
          await own.press('', '!')
        }
        await own.open('mock/unreachable')
        await page.locator('dialog.sheet').getByText('ECONNREFUSED 127.0.0.1:9').first().waitFor()
      },
    )
  })

  it('finds what is down, why, and tries it', async () => {
    for (let i = 0; i < 2; i++) await stage.gateway.chat({ ...hello, model: 'mock/unreachable' })
    await doing(
      'what is down, why, act',
      task('2; 7, no act', [2, 0], [5, 0]),
      hands,
      async (own, page) => {
        await page
          .locator('.incident', { hasText: 'mock/unreachable' })
          .getByText('ECONNREFUSED 127.0.0.1:9: nothing listens there')
          .waitFor()
        if (hands.kind === 'keys') await own.press('', 'j')
        await own.press('Test now', hands.kind === 'keys' ? 'Enter' : undefined)
        await page.getByText(/mock\/unreachable failed: .*ECONNREFUSED/).waitFor()
      },
    )
  })

  it('finds who spent most, and that it equals the ledger', async () => {
    await doing(
      'top spender, equals the ledger',
      task('4; 4+17', [3, 0], [4, 9]),
      hands,
      async (own, page) => {
        await own.place('Usage', 'u')
        await page.waitForSelector('tfoot')
        await own.choose('By', 'account', 'b')
        await page.waitForSelector('tbody tr:first-child .row-link:has-text("weir")')
        await expect.poll(() => page.textContent('.proof')).toContain('✓ Equals the ledger: $')
        const total = /\$[\d.,]+/.exec((await page.textContent('tfoot'))!)![0]
        await expect.poll(() => page.textContent('.proof')).toContain(total)
      },
    )
  })

  it('makes a key with a limit, an allowlist and a policy, and sees a call blocked', async () => {
    const { account } = await kit(hands, 'shop')
    const name = `Shop${hands.kind === 'keys' ? 1 : 2}`
    let secret = ''
    await doing(
      'key: 5 USD a month, allowlist, policy with a wrong pattern, two texts, see the block',
      task('23+74; 69+81', [17, 74], [45, 81]),
      hands,
      async (own, page) => {
        await own.place('Keys', 'k')
        await page.locator('tbody .row-link').first().waitFor()
        await own.press('New key', 'n')
        await page.locator('dialog').waitFor()
        await own.fill('Name', name)
        await own.choose('Account', account)
        await own.fill('At most, USD', '5')
        await own.fill('Models', 'mock/echo')
        await page.getByText('Matches 1 of').waitFor()
        await own.choose('Policy', 'written here')
        await own.fill('Pattern 1', '(heron')
        await page.locator('.patterns .error').waitFor()
        await own.fill('Pattern 1', 'heron')
        await page.locator('.patterns .error').waitFor({ state: 'detached' })
        await own.fill('Input', 'Hello')
        await page.getByText('nothing blocks these texts').waitFor()
        await own.fill('Input', 'A heron')
        await page.locator('.marked mark').first().waitFor()
        await own.submit('Create key')
        await page.locator('.secret code').waitFor()
        secret = (await page.textContent('.secret code'))!
        await own.press('It is stored')
        await page.locator(`h1:has-text("${name}")`).waitFor()
        const messages = [{ role: 'user', content: 'All about a heron' }]
        await stage.gateway.chat({ model: 'mock/echo', messages }, { key: secret })
        await own.place('Requests', 'r')
        await own.open(name)
        await page.locator('dialog.sheet').getByText('bannedPatterns[0]').first().waitFor()
      },
    )
    const { json: keys } = await stage.admin('GET', `/keys?account=${account}`)
    expect(keys.data.find((one: any) => one.name === name)).toMatchObject({
      models: ['mock/echo'],
      limits: [{ unit: 'usd', window: 'month', value: '5' }],
      policy: { bannedPatterns: ['heron'] },
    })
  })

  it('ends a leaked key, which is pasted, and has a new secret', async () => {
    const { secret, name } = await kit(hands, 'Leak')
    await doing(
      'leaked key pasted: end it, new secret',
      task('10+14; 48+14, not found', [4, 0], [9, 0]),
      hands,
      async (own, page) => {
        await own.search(secret, true)
        await page.locator('#hits li[id]', { hasText: name }).waitFor()
        await own.press('It has leaked')
        await own.submit('End it now, and rotate')
        await page.locator('.secret code').waitFor()
      },
    )
    expect((await stage.gateway.chat(hello, { key: secret })).status).toBe(401)
  })

  it('tops up by mistake, and reverses it', async () => {
    const { account } = await kit(hands, 'mistake')
    await doing(
      'top up 1000 by mistake, reverse',
      task('10+33; 96+33', [7, 4], [24, 4]),
      hands,
      async (own, page) => {
        await own.place('Accounts', 'a')
        await own.open(account)
        await page.locator(`h1:has-text("${account}")`).waitFor()
        await own.press('Add credits', 'n')
        await own.fill('Amount, USD', '1000')
        await own.submit('Add credits')
        await page.locator('dialog').waitFor({ state: 'detached' })
        await own.press('Bookings', '2')
        await page.locator('tbody tr', { hasText: '1,000' }).waitFor()
        if (hands.kind === 'clicks') await own.press('Reverse…')
        else await own.open('1,000')
        await page.locator('dialog').waitFor()
        await own.submit('Reverse')
        await page.locator('tbody tr', { hasText: 'reverse:' }).waitFor()
      },
    )
    expect(await stage.gateway.balance(account)).toBe(25n * 10n ** 12n)
  })

  it('finds the calls of an end user', async () => {
    await doing(
      'calls of an end user',
      task('6+10; 5+14', [2, 10], [3, 10]),
      hands,
      async (own, page) => {
        await own.search('u_1882')
        await own.hit('u_1882')
        await page.locator('tbody .row-link').first().waitFor()
      },
    )
  })

  it('takes the calls as CSV', async () => {
    await doing('CSV', task('2; 3', [2, 0], [3, 0]), hands, async (own, page) => {
      await own.place('Requests', 'r')
      await page.locator('tbody .row-link').first().waitFor()
      const download = page.waitForEvent('download')
      await own.press('CSV', 'x')
      expect((await download).suggestedFilename()).toMatch(/\.csv$/)
    })
  })

  it('imports a price file, and sees what was left out', async () => {
    const row = { litellm_provider: 'acme', mode: 'chat', input_cost_per_token: 1e-6 }
    const list = { 'acme/plain': row }
    await doing(
      'import a price file, see what was left out',
      task('6; 28+6, not said', [6, 0], [16, 6]),
      hands,
      async (own, page) => {
        if (hands.kind === 'clicks') {
          await own.place('Models', 'm')
          await own.press('Import prices')
        } else {
          await own.search('import')
          await own.hit('Import prices')
        }
        await page.locator('dialog').waitFor()
        await own.choose('From', 'A file')
        const buffer = Buffer.from(JSON.stringify(list))
        await own.attach('File', { name: 'list.json', mimeType: 'application/json', buffer })
        await own.submit('Compare')
        await page.getByText('1 row of the vendor acme').waitFor()
      },
    )
  })

  it('adds a vendor, and serves two of its models', async () => {
    await clearFile()
    const vendor = await startUpstream()
    onTestFinished(() => vendor.close())
    const offered = ['mistral-large-2512', 'mistral-small-2603', 'codestral-2508'].map((id) => ({
      id,
      capabilities: { completion_chat: true },
    }))
    vendor.answer(({ headers }) =>
      headers.authorization === `Bearer ${PLANTED}`
        ? json({ data: offered })
        : json({ message: 'Unauthorized' }, 401),
    )
    await doing(
      'vendor, two of its models',
      task('–', [8, 10], [24, 10]),
      hands,
      async (own, page) => {
        await own.search('add v')
        await own.hit('Add a vendor')
        await page.getByLabel('Search vendors').waitFor()
        if (hands.kind === 'clicks') await own.press('mistral')
        else {
          await own.fill('Search vendors', 'mis')
          await own.press('', 'Enter')
        }
        await page.getByLabel('API key').waitFor()
        // The stand-in's address, which a vendor's own has by itself.
        await page.evaluate(`document.querySelector('dialog details').open = true`)
        await page.getByLabel('Address').fill(`${vendor.url}/v1`)
        await page.evaluate(`document.querySelector('dialog details').open = false`)
        await page.getByLabel('API key').focus()
        await own.paste('API key', PLANTED)
        await own.submit('Continue')
        await page.getByText('answered with 3 models').waitFor()
        await own.tick('Single ones')
        await own.tick('mistral-large-2512')
        await own.tick('mistral-small-2603')
        await own.submit('Serve them')
        await page.locator('dialog').waitFor({ state: 'detached' })
      },
      '/console',
      {},
      () => Promise.resolve(),
      filed.visitors,
    )
    const names = (await entriesOnFile()).map(({ name }) => name)
    expect(names.toSorted()).toEqual([
      'mistral',
      'mistral/mistral-large-2512',
      'mistral/mistral-small-2603',
    ])
  })

  it('adds a model with another name and its own price', async () => {
    await clearFile()
    const id = `acme/pro${hands.kind === 'keys' ? 1 : 2}`
    await doing(
      'model with alias and own price',
      task('–', [10, 30], [24, 30]),
      hands,
      async (own, page) => {
        await own.place('Models', 'm')
        await page.getByRole('button', { name: 'Add a model' }).waitFor()
        await own.press('Add a model', 'n')
        await page.getByLabel('Id').waitFor()
        await own.fill('Id', id)
        await own.press('Add a deployment')
        await own.fill('Vendor', 'mock')
        await own.fill('Its name there', 'echo')
        await own.fill('Other names', id.slice(5))
        await own.fill('Of the prompt', '1')
        await own.fill('Of the answer', '2')
        await own.submit('Serve and test')
        await page.getByText(`${id} answered in`).waitFor()
      },
      '/console',
      {},
      () => Promise.resolve(),
      filed.visitors,
    )
    const { json: model } = await onFile('GET', `/models/${encodeURIComponent(id)}`)
    expect(model.data).toMatchObject({
      aliases: [id.slice(5)],
      pricing: { prompt: '0.000001', completion: '0.000002' },
    })
  })

  it('signs out, and the session is over', async () => {
    await doing(
      'sign out, cookie dead',
      task('2; 20, alive', [2, 0], [2, 8]),
      hands,
      async (own, page) => {
        const { cookies } = await page.context().storageState()
        const cookie = cookies.map(({ name, value }) => `${name}=${value}`).join('; ')
        if (hands.kind === 'clicks') {
          await own.press('admin')
          await own.press('Sign out')
        } else {
          await own.search('sign out')
          await own.hit('Sign out')
        }
        await page.locator('input[type=password]').waitFor()
        const headers = { cookie, 'sec-fetch-site': 'same-origin' }
        const after = await fetch(`${stage.gateway.url}/admin/overview`, { headers })
        expect(after.status).toBe(401)
      },
    )
  })

  it('opens the manual of a screen', async () => {
    const bound = task('–', [1, 0], [1, 0])
    await doing('manual of a screen', bound, hands, async (own, page) => {
      await own.press('Manual of this screen', 'h')
      await page.locator('.manual h3, .manual p').first().waitFor()
    })
  })

  it('sends a kept call again', async () => {
    const { name, secret } = await kit(hands, 'Kept')
    await stage.gateway.chat(hello, { key: secret })
    await doing('resend a kept call', task('–', [4, 0], [9, 0]), hands, async (own, page) => {
      await own.place('Requests', 'r')
      await own.open(name)
      await page.locator('dialog.sheet .facts').waitFor()
      await own.press('Open in Playground')
      await page.locator('[type=submit]:focus').waitFor()
      await own.press('Send', 'Enter')
      await page.getByText(/^done ·/).waitFor()
    })
  })

  it('compares two models', async () => {
    await doing('compare two models', task('–', [5, 10], [9, 20]), hands, async (own, page) => {
      await own.place('Playground', 'p')
      await page.locator('textarea:focus').waitFor()
      await own.fill('Message', 'Hello')
      await own.choose('Compare with', 'mock/large', undefined, 'large')
      await page.getByRole('button', { name: 'Send 2 calls' }).waitFor()
      await own.submit('Send 2 calls')
      await page.locator('.bench table tbody tr').nth(1).getByText('$').waitFor()
    })
  })

  it('makes a token that may only read', async () => {
    await doing(
      'read-only token for a colleague',
      task('–', [5, 8], [10, 8]),
      hands,
      async (own, page) => {
        if (hands.kind === 'clicks') {
          await own.place('Settings', 's')
          await own.press('People')
        } else {
          await own.search('new t')
          await own.hit('New token')
        }
        await page.getByRole('button', { name: 'Make token' }).waitFor()
        await own.fill('Name', `Ada${hands.kind === 'keys' ? 1 : 2}`)
        await own.submit('Make token')
        await page.getByText('It is shown only now').waitFor()
      },
    )
    const { json: tokens } = await stage.admin('GET', '/tokens')
    expect(tokens.data.find(({ name }: any) => name.startsWith('Ada'))).toMatchObject({
      role: 'viewer',
    })
  })

  it('disables a key by its name from anywhere, and takes it back', async () => {
    const { id } = await stage.gateway.newKey({ name: hands.kind === 'keys' ? 'Pier' : 'Quay' })
    const stateOf = async () => (await stage.admin('GET', `/keys/${id}`)).json.data.disabled
    await doing(
      'disable a key by name anywhere, undo',
      task('–', [3, 4], [5, 4]),
      hands,
      async (own, page) => {
        const name = hands.kind === 'keys' ? 'Pier' : 'Quay'
        await own.search(name)
        await own.hit(name, 'Disable')
        await page.getByText(`Disabled ${name}`).waitFor()
        expect(await stateOf()).toBe(true)
        await own.press('Undo', 'z')
        await page.getByText('Undone').waitFor()
        expect(await stateOf()).toBe(false)
      },
      '/console/guard',
    )
  })

  it('makes a team with a weekly cap, and invites to it', async () => {
    const { account } = await kit(hands, 'crew')
    await doing(
      'team with a weekly cap, invite',
      task('–', [12, 20], [32, 20]),
      hands,
      async (own, page) => {
        await own.place('Accounts', 'a')
        await own.open(account)
        await page.locator(`h1:has-text("${account}")`).waitFor()
        await own.press('Teams', '5')
        await page.getByRole('button', { name: 'New team' }).waitFor()
        await own.press('New team', 'n')
        await own.fill('Name', 'Field')
        await own.fill('At most, USD', '50')
        await own.choose('Per', 'a week')
        await own.submit('Create team')
        await page.locator('section[aria-label=Field] .limits').waitFor()
        await own.press('Invite', 'i')
        await own.fill('Name', 'Ada')
        await own.submit('Invite')
        await page.locator('.secret code').waitFor()
      },
    )
    const { json: teams } = await stage.admin('GET', `/teams?account=${account}`)
    expect(teams.data[0].limits).toEqual([{ unit: 'usd', window: 'week', value: '50' }])
  })

  it('refunds a call', async () => {
    const { account, name, secret } = await kit(hands, 'Refund')
    await stage.gateway.chat({ ...hello, model: 'mock/large' }, { key: secret })
    await doing('refund a call', task('–', [5, 10], [10, 10]), hands, async (own, page) => {
      await own.place('Requests', 'r')
      await own.open(name)
      await page.locator('dialog.sheet .facts').waitFor()
      await own.press('Refund…')
      await own.fill('Reason', 'Sorry')
      await own.submit('Refund')
      await page.getByText(/^Refunded \$/).waitFor()
    })
    expect(await stage.gateway.balance(account)).toBe(25n * 10n ** 12n)
  })

  it('issues the statement of last month, and opens it', async () => {
    const { now } = Date
    const account = `yearly-${hands.kind}`
    Date.now = () => now() - 40 * 86_400_000
    try {
      await stage.gateway.newAccount(account, '25')
    } finally {
      Date.now = now
    }
    await doing(
      'issue last month’s statement, open it',
      task('–', [6, 0], [12, 0]),
      hands,
      async (own, page) => {
        await own.place('Accounts', 'a')
        await own.open(account)
        await page.locator(`h1:has-text("${account}")`).waitFor()
        await own.press('Statement', hands.kind === 'keys' ? STATEMENTS : undefined)
        await own.submit('Issue')
        await page.locator('tbody tr', { hasText: 'issued' }).waitFor()
        const opened = page.context().waitForEvent('page')
        if (hands.kind === 'clicks') await own.press('Open')
        else await own.open('issued')
        await (await opened).getByText(account).first().waitFor()
      },
    )
  })

  it('shows the holder of a key why an answer was replaced, and what is left', async () => {
    const { account } = await kit(hands, 'holder')
    const policy = { version: 1 as const, bannedPatterns: ['project heron'] }
    const { secret } = await stage.gateway.newKey({ account, policy })
    const messages = [{ role: 'user', content: 'Tell me about project heron' }]
    await stage.gateway.chat({ model: 'mock/echo', messages }, { key: secret })
    const signIn = async (page: Page) => {
      await page.request.post('/me/api/session', {
        headers: { 'sec-fetch-site': 'same-origin' },
        data: { key: secret },
      })
    }
    const zero = task('–', [0, 0], [0, 0])
    const leadsTo = `http://127.0.0.1:${(payPage.address() as AddressInfo).port}`
    const visit = { token: undefined, leadsTo }
    await doing(
      'holder: why was my answer replaced',
      zero,
      hands,
      async (_, page) => {
        await page.getByText('by the policy of this key').waitFor()
      },
      '/me',
      visit,
      signIn,
    )
    await doing(
      'holder: what is left; to the payment page',
      task('wrong', [2, 0], [6, 0]),
      hands,
      async (own, page) => {
        await page.locator('.tile:has-text("Left")').getByText('$2').waitFor()
        await own.press('25 USD')
        await own.submit('Pay')
        await page.locator('h1:has-text("Pay here")').waitFor()
      },
      '/me',
      visit,
      signIn,
    )
  })
})
