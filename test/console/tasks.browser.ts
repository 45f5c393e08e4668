/** Four tasks of an operator in a month of calls, by keys alone and by a pointer: how many keys or clicks, and seconds. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { send } from '../_setup.ts'
import { hasBrowser, settled, type Watched } from './_browser.ts'
import { Demo } from './_demo.ts'
import { Keyboard, Pointer, type Hands } from './_hands.ts'

const READER = 'demo/folio'
const CHAT = 'demo/atlas-small'

let demo: Demo
beforeAll(async () => {
  if (hasBrowser) demo = await Demo.open()
})
afterAll(async () => {
  if (hasBrowser) await demo[Symbol.asyncDispose]()
})

const KINDS = [
  { kind: 'keys', Kind: Keyboard },
  { kind: 'clicks', Kind: Pointer },
] as const

/** A task with one kind of hands: opens the overview, does the work, prints what it took. */
async function doing(
  task: string,
  { kind, Kind }: (typeof KINDS)[number],
  work: (hands: Hands, page: Watched['page']) => Promise<void>,
): Promise<void> {
  const { page, faults } = await demo.visitors.page()
  await page.goto('/console')
  await settled(page)
  const hands = new Kind(page)
  const began = performance.now()
  await work(hands, page)
  const seconds = ((performance.now() - began) / 1000).toFixed(1)
  process.stdout.write(
    `TASK ${task}: ${hands.count} ${kind}, ${hands.letters} letters, ${seconds} s\n`,
  )
  expect(faults).toEqual([])
  await page.context().close()
}

async function newKey(name: string): Promise<{ readonly id: string; readonly secret: string }> {
  const { json } = await demo.admin('POST', '/accounts/lumen/keys', { name })
  return { id: json.data.id, secret: json.key }
}

function monthAgo(): string {
  return new Date(Date.now() - 30 * 86_400_000).toISOString()
}

/** A call of a client. */
function ask(secret: string, path: string, body: object) {
  const headers = { authorization: `Bearer ${secret}`, 'content-type': 'application/json' }
  return send(`${demo.url}/v1${path}`, 'POST', JSON.stringify(body), headers)
}

describe.skipIf(!hasBrowser).each(KINDS)('with $kind', (hands) => {
  it('an operator finds why a request failed', async () => {
    const list = await demo.admin('GET', `/requests?status=504&limit=1&from=${monthAgo()}`)
    const { id, code, deployment } = list.json.data[0]
    await doing('why a request failed', hands, async (own, page) => {
      await own.search(id)
      await page.waitForSelector('dialog.sheet .facts')
      const text = await page.textContent('dialog.sheet')
      expect(text).toContain(code)
      expect(text).toContain(deployment)
    })
  })

  it('an operator finds who spent most in a month, and that the sum is that of the ledger', async () => {
    const asked = await demo.admin('GET', `/usage?group=account&metric=cost_usd&from=${monthAgo()}`)
    const cells = asked.json.data as { group: { account: string }; cost_usd: number }[]
    const spent = Map.groupBy(cells, ({ group }) => group.account)
    const sums = [...spent].map(([account, own]) => ({
      account,
      cost: own.reduce((sum, { cost_usd: cost }) => sum + cost, 0),
    }))
    const most = sums.toSorted((one, next) => next.cost - one.cost)[0]!.account
    await doing('who spent most', hands, async (own, page) => {
      await own.place('Usage', 'u')
      await page.waitForSelector('tfoot')
      await own.choose('By', 'account', 'b')
      await page.waitForSelector(`tbody tr:first-child .row-link:has-text("${most}")`)
      await expect.poll(() => page.textContent('.proof')).toContain('✓ Equals the ledger: $')
      const total = /\$[\d.,]+/.exec((await page.textContent('tfoot'))!)![0]
      expect(await page.textContent('.proof')).toContain(total)
    })
  })

  it('an operator makes a key that may read documents alone, for 5 USD a month', async () => {
    let secret = ''
    await doing('a key for documents', hands, async (own, page) => {
      await own.place('Keys', 'k')
      await page.waitForSelector('tbody .row-link')
      await own.press('New key', 'n')
      await page.waitForSelector('dialog')
      await own.fill('Name', `Archive, by ${hands.kind}`)
      await own.choose('Account', 'Lumen')
      await own.press('Add a limit')
      await own.fill('At most, USD', '5')
      await own.fill('Models', READER)
      await page.waitForSelector(`text=Matches 1 of`)
      await own.press('Create key')
      await page.waitForSelector('.secret code')
      secret = (await page.textContent('.secret code'))!
      await own.press('Done')
      await own.press('It is stored')
      await page.waitForSelector('.secret', { state: 'detached' })
    })
    const { json } = await demo.admin('GET', '/keys?account=lumen')
    const key = json.data.find(({ name }: { name: string }) => name.endsWith(hands.kind))
    expect(key).toMatchObject({
      account_id: 'lumen',
      models: [READER],
      spend_cap: { usd: '5', scope: 'month' },
    })
    const messages = [{ role: 'user', content: 'Hello' }]
    const other = await ask(secret, '/chat/completions', { model: CHAT, messages })
    expect(other.json.error.code).toBe('model_not_allowed')
  })

  it('an operator writes a policy with a mistake, tries it on three texts, saves it, and sees a call blocked', async () => {
    const name = `Reception, by ${hands.kind}`
    const { secret } = await newKey(name)
    await doing('a policy', hands, async (own, page) => {
      await own.place('Keys', 'k')
      await own.open(name)
      await page.waitForSelector(`h1:has-text("${name}")`)
      await own.press('Policy', 'e')
      await page.waitForSelector('section[aria-label=Form]')
      await own.press('Add pattern', 'n')
      await own.fill('Pattern 1', '(project heron')
      await page.waitForSelector('.patterns .error')
      await own.fill('Pattern 1', 'project (heron|egret)')
      await page.waitForSelector('.patterns .error', { state: 'detached' })
      for (const [text, blocks] of [
        ['When do you open?', false],
        ['Tell me about Project Heron', true],
        ['What is project egret?', true],
      ] as const) {
        await own.fill('Input', text, 't')
        await page.waitForSelector(
          blocks ? `.marked mark:has-text("project")` : 'text=nothing blocks these texts',
        )
        if (blocks) await page.waitForSelector(`.marked:has-text("${text}")`)
      }
      await own.press('Save…', 'Control+Enter')
      await page.waitForSelector('dialog')
      await own.press('Save policy')
      await page.waitForSelector('dialog', { state: 'detached' })
      if (hands.kind === 'keys') await own.press('', 'Escape')
      await own.place('Requests', 'r')
      await page.waitForSelector('tbody .row-link')
      await own.press('Live', 'l')
      const messages = [{ role: 'user', content: 'All about project egret' }]
      const refused = await ask(secret, '/chat/completions', { model: CHAT, messages })
      expect(refused.json.choices[0].finish_reason).toBe('content_filter')
      await own.open(name)
      await page.waitForSelector('dialog.sheet .facts')
      const text = await page.textContent('dialog.sheet')
      expect(text).toContain('bannedPatterns[0]')
      expect(text).toContain('blocked')
    })
  })
})
