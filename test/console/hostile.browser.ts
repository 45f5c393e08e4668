/** Names, texts and answers that would do harm as markup, and every button of a reader who may only look. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { hasBrowser, overflowOf, settled, Stage, VIEWER, type Watched } from './_browser.ts'

const MARKUP = '<img src=x onerror="document.title=1"><script>document.title=1</script>'
const TURNED = '\u202Eevil\u202C'
const WORD = 'a'.repeat(190)

let stage: Stage
let account: string
let key: { readonly id: string; readonly secret: string }
beforeAll(async () => {
  if (!hasBrowser) return
  stage = await Stage.open()
  account = 'hostile'
  await stage.admin('POST', '/accounts', { id: account, name: `${MARKUP}${TURNED}` })
  await stage.admin('POST', `/accounts/${account}/credits`, { usd: '1', reference: 'one' })
  const made = await stage.admin('POST', `/accounts/${account}/keys`, {
    name: `=1+1${MARKUP}`,
    note: WORD,
  })
  key = { id: made.json.data.id, secret: made.json.key }
  const messages = [{ role: 'user', content: `${MARKUP} ${'b'.repeat(10_000)}` }]
  for (const model of ['mock/echo', MARKUP]) {
    const body = { model, messages, user: MARKUP, metadata: { tag: WORD.slice(0, 60) } }
    await stage.gateway.chat(body, { key: key.secret })
  }
})
afterAll(async () => {
  if (hasBrowser) await stage[Symbol.asyncDispose]()
})

/** What a page must not have become. */
async function harmOf({ page, faults }: Watched): Promise<unknown[]> {
  const title = await page.title()
  const images = await page.locator('img[src=x]').count()
  return [...faults, title === '1' ? 'a script ran' : [], images, await overflowOf(page)].flat()
}

describe.skipIf(!hasBrowser)('texts of strangers', { concurrent: true }, () => {
  it.for([1440, 360])(
    'are texts on every screen, and fit into %i px',
    async (width, { expect }) => {
      const watched = await stage.page({ width })
      const { page } = watched
      const { json } = await stage.admin('GET', `/requests?key=${key.id}`)
      const ids = json.data.map(({ id }: { id: string }) => `/console/requests?open=${id}`)
      expect(ids).toHaveLength(2)
      for (const path of [
        '/console',
        '/console/accounts',
        `/console/accounts/${account}/overview`,
        `/console/accounts/${account}/keys`,
        '/console/keys',
        `/console/keys/${key.id}/overview`,
        `/console/keys/${key.id}/policy`,
        '/console/usage?group=user,key',
        '/console/usage?group=tag',
        `/console/requests?q=${encodeURIComponent(MARKUP)}&user=${encodeURIComponent(MARKUP)}`,
        '/console/settings/audit',
        ...ids,
      ]) {
        await page.goto(path)
        await settled(page)
        expect([path, ...(await harmOf(watched))]).toEqual([path, 0, 0])
      }
      await page.goto(`/console/keys/${key.id}/overview`)
      await settled(page)
      await expect.poll(() => page.textContent('h1')).toContain(`=1+1${MARKUP}`)
      await page.context().close()
    },
  )

  it('are texts in the answer of a model', async ({ expect }) => {
    const watched = await stage.page({ width: 360 })
    const { page } = watched
    await page.goto(`/console/play?key=${stage.gateway.key.id}&model=mock/echo`)
    await settled(page)
    await page.getByLabel('Message').fill(`${MARKUP}${TURNED} ${'c'.repeat(10_000)}`)
    await page.getByRole('button', { name: 'Send' }).click()
    await page.getByText(/^done ·/).waitFor()
    await expect.poll(() => page.locator('.answer .said').innerText()).toContain(MARKUP)
    expect(await harmOf(watched)).toEqual([0, 0])
    await page.context().close()
  })

  it('are no formulas in CSV', async ({ expect }) => {
    const { text } = await stage.admin('GET', `/keys?account=${account}&format=csv`)
    expect(text).toContain('1+1')
    expect(text).not.toMatch(/(^|,|")=1\+1/m)
  })
})

describe.skipIf(!hasBrowser)('the policy of the page', () => {
  it('keeps out what is not its own, and every test hears of an attempt', async () => {
    const { page, faults } = await stage.page()
    await page.goto('/console')
    await settled(page)
    await page.evaluate(() => {
      const { document } = globalThis as unknown as {
        document: {
          createElement(name: string): { src?: string; textContent?: string; style?: string }
          body: { append(element: object): void }
        }
      }
      const script = document.createElement('script')
      script.textContent = 'document.title = 1'
      const image = document.createElement('img')
      image.src = 'https://images.example/pixel.png'
      document.body.append(script)
      document.body.append(image)
      return fetch('https://api.example/').catch(() => {})
    })
    const told = () => faults.filter((fault) => fault.startsWith('policy: ')).toSorted()
    await expect
      .poll(told)
      .toEqual([
        'policy: connect-src https://api.example/',
        'policy: img-src https://images.example/pixel.png',
        'policy: script-src-elem inline',
      ])
    await expect.poll(() => page.title()).not.toBe('1')
    faults.length = 0
    await page.context().close()
  })
})

describe.skipIf(!hasBrowser)('a reader', () => {
  it('sees every button that changes something, and none does', async () => {
    const { page } = await stage.page({ token: VIEWER })
    const writes: string[] = []
    page.on('request', (request) => {
      if (request.method() !== 'GET') writes.push(`${request.method()} ${request.url()}`)
    })
    for (const [address, least] of [
      ['/console/accounts', 1],
      [`/console/accounts/${account}/overview`, 3],
      ['/console/keys', 1],
      [`/console/keys/${key.id}/overview`, 3],
      ['/console/models', 1],
      ['/console/models?open=mock/large', 1],
      ['/console/settings/gateways', 1],
    ] as const) {
      await page.goto(address)
      await settled(page)
      const buttons = page.locator(
        'main button[aria-disabled=true], dialog button[aria-disabled=true]',
      )
      const titles = await buttons.evaluateAll((all) =>
        all.map((one) => (one as unknown as { title: string }).title),
      )
      expect(titles.length, address).toBeGreaterThanOrEqual(least)
      for (let i = 0; i < titles.length; i++) {
        expect(titles[i], address).toMatch(/^needs the role (?:(?:operator|billing) or )?admin$/)
        await buttons.nth(i).click({ force: true })
      }
      await expect
        .poll(() => page.locator('dialog:not(.sheet)').count(), { message: address })
        .toBe(0)
    }
    expect(writes).toEqual([])
    await page.context().close()
  })
})
