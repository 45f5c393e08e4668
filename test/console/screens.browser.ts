/** Every screen, in both themes and five widths, and what it shows where an answer is empty, partial or an error: readable by everyone, nothing wider than the window, no errors. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import {
  hasBrowser,
  MOST_KIB,
  overflowOf,
  settled,
  shoot,
  Stage,
  violationsOf,
  type Watched,
  weightOf,
} from './_browser.ts'
import { furnish } from './_furniture.ts'

/** Name of the picture and address. */
const SCREENS: readonly (readonly [name: string, path: string])[] = [
  ['overview', '/console'],
  ['usage', '/console/usage'],
  ['usage-by-two', '/console/usage?group=model,account&rollup=day&hide=mock/echo%20%C2%B7%20acme'],
  ['usage-filtered', '/console/usage?account=none-of-them'],
  ['usage-wrong', '/console/usage?group=tag,model'],
  ['models', '/console/models'],
  ['model', '/console/models?open=mock/large'],
  ['model-new', '/console/models?add='],
  ['vendors', '/console/models/vendors'],
  ['unserved', '/console/models/unserved'],
  ['guard', '/console/guard'],
  ['settings', '/console/settings?q=state'],
  ['settings-audit', '/console/settings/audit'],
  ['settings-alerts', '/console/settings/alerts'],
  ['settings-gateways', '/console/settings/gateways'],
  ['settings-people', '/console/settings/people'],
  ['settings-connections', '/console/settings/connections'],
  ['start', '/console/start'],
  ['play', '/console/play'],
  ['play-image', '/console/play?model=mock/image'],
  ['requests', '/console/requests'],
  ['requests-filtered', '/console/requests?status=4xx&key=key-of-none'],
  ['request', '/console/requests?open=REQUEST'],
  ['request-kept', '/console/requests?open=KEPT'],
  ['request-missing', '/console/requests?open=req_01ARZ3NDEKTSV4RRFFQ69G5FAV'],
  ['keys', '/console/keys'],
  ['keys-filtered', '/console/keys?account=kiosk&state=active'],
  ['key-new', '/console/keys?new=kiosk'],
  ['key', '/console/keys/KEY/overview'],
  ['key-missing', '/console/keys/key_none/overview'],
  ['key-requests', '/console/keys/KEY/requests'],
  ['policy', '/console/keys/KEY/policy'],
  ['accounts', '/console/accounts'],
  ['account', '/console/accounts/ACCOUNT/overview'],
  ['account-keys', '/console/accounts/ACCOUNT/keys'],
  ['account-bookings', '/console/accounts/ACCOUNT/bookings'],
  ['account-statement', '/console/accounts/ACCOUNT/statement'],
  ['account-teams', '/console/accounts/ACCOUNT/teams'],
]

/** The pages of the holder of a key. */
const OWN = ['', '/usage', '/requests', '/models', '/play', '/connect']

const REFUSED = { error: { message: 'The log is being read. Try again.', code: 'busy' } }
const EMPTY = { data: [], next: null }
const SINCE = new Date(Date.now() - 125_000).toISOString()
/** Something to look at, and calls that run. */
const BUSY = {
  alerts: [
    ['balance.low', 'kiosk', 'the balance of account kiosk is below 5 USD'],
    ['model.down', 'mock/large', 'every deployment of mock/large is in cooldown'],
  ].map(([kind, object, message]) => ({ id: kind, kind, object, message, since: SINCE })),
  deployments: [
    {
      deployment: 'mock/large',
      model: 'mock/large',
      state: 'cooldown',
      since: SINCE,
      rests_until: null,
      last_failure: 'rate_limit',
    },
  ],
  running: {
    count: 2,
    calls: ['mock/echo', 'mock/large'].map((model, i) => ({
      id: `req_${i}`,
      at: SINCE,
      endpoint: '/v1/chat/completions',
      model,
      account_id: 'kiosk',
      key_id: 'key_1',
      key_name: 'Museum kiosk at the entrance',
    })),
  },
}
/** Name of the picture, address, the question that gets another answer, and which: an error, or a change of what it would be. */
const STATES: readonly (readonly [
  name: string,
  path: string,
  question: string,
  answer: 'error' | object,
])[] = [
  ['overview-error', '/console', '/admin/overview', 'error'],
  ['overview-new', '/console', '/admin/overview', { data: { hours: [] } }],
  ['overview-busy', '/console', '/admin/overview', { data: BUSY }],
  ['usage-error', '/console/usage', '/admin/usage?*', 'error'],
  [
    'usage-partial',
    '/console/usage',
    '/admin/usage?*',
    { partial: { from: '2026-11-23T08:00:00Z' } },
  ],
  ['usage-indexing', '/console/usage', '/admin/usage?*', { indexed: 0.43 }],
  ['requests-error', '/console/requests', '/admin/requests?*', 'error'],
  ['requests-empty', '/console/requests', '/admin/requests?*', EMPTY],
  [
    'requests-partial',
    '/console/requests',
    '/admin/requests?*',
    { unreadable_days: ['2026-11-20'] },
  ],
  ['accounts-error', '/console/accounts', '/admin/accounts', 'error'],
  ['accounts-empty', '/console/accounts', '/admin/accounts', EMPTY],
  ['keys-empty', '/console/keys', '/admin/keys', EMPTY],
  ['models-empty', '/console/models', '/admin/models', EMPTY],
  ['guard-error', '/console/guard', '/admin/guard?*', 'error'],
  ['settings-audit-empty', '/console/settings/audit', '/admin/audit?*', EMPTY],
]
const THEMES = ['light', 'dark'] as const
const WIDTHS = [1440, 1024, 760, 560, 360] as const
/** Where axe looks, in each theme: each width in one of them, and a phone in both. At the others only what is too wide is looked for. */
const LOOKED_AT = { light: [1440, 560, 360], dark: [1024, 760, 360] } as const
/** Requests of a screen when it is opened, who is signed in among them; the stream of events is one more. */
const MOST_REQUESTS = 4

let stage: Stage
let places: Readonly<Record<string, string>>
beforeAll(async () => {
  if (!hasBrowser) return
  stage = await Stage.open()
  places = await furnish(stage)
})
afterAll(async () => {
  if (hasBrowser) await stage[Symbol.asyncDispose]()
})

/** What is wrong with a page that is shown; undefined where nothing is. @param refused notices of errors that belong to it */
async function wrongWith({ page, faults }: Watched, refused: number): Promise<object | undefined> {
  const violations = await violationsOf(page)
  const overflow = await overflowOf(page)
  const notices = await page.locator('.notice.bad').count()
  const found = { violations, faults: faults.splice(0), overflow, notices }
  const isFine = violations.length + found.faults.length === 0 && overflow <= 0
  return isFine && notices === refused ? undefined : found
}

/** The same at every width of a theme, by width; empty where nothing is wrong. @param name the name of its pictures */
async function wrongAtWidths(
  watched: Watched,
  theme: (typeof THEMES)[number],
  name: string,
): Promise<readonly (readonly [number, object])[]> {
  const { page } = watched
  const found: (readonly [number, object])[] = []
  for (const width of WIDTHS) {
    await page.setViewportSize({ width, height: 900 })
    await settled(page)
    await shoot(page, `${theme}/${width}/${name}`)
    const isLookedAt = (LOOKED_AT[theme] as readonly number[]).includes(width)
    const overflow = isLookedAt ? 0 : await overflowOf(page)
    const wrong = isLookedAt && (await wrongWith(watched, name.endsWith('-missing') ? 1 : 0))
    if (wrong) found.push([width, wrong])
    if (overflow > 0) found.push([width, { overflow }])
  }
  await page.setViewportSize({ width: WIDTHS[0], height: 900 })
  return found
}

/** Members of an object, and of the object in its `data`, in the place of others. */
function changed(json: any, { data, ...more }: { readonly data?: object }): object {
  const isList = Array.isArray(json.data) || Array.isArray(data)
  return { ...json, ...more, ...(data && { data: isList ? data : { ...json.data, ...data } }) }
}

/** An address with the ids that its words stand for. */
function addressOf(address: string): string {
  return address.replace(/[A-Z]{3,}/g, (word) => places[word] ?? word)
}

describe.skipIf(!hasBrowser)('what is loaded', () => {
  it('for a first visit of the overview is little', async () => {
    const { page } = await stage.page()
    const { kib, answers } = await weightOf(page, '/console')
    expect(answers).toBeGreaterThan(20)
    expect(kib).toBeLessThan(MOST_KIB)
    await page.context().close()
  })

  it('when a screen is opened are a few answers', async () => {
    const { page } = await stage.page()
    const asked = new Set<string>()
    page.on('request', (request) => {
      const { pathname } = new URL(request.url())
      if (/^\/admin\/(?!events)/.test(pathname)) asked.add(`${request.method()} ${pathname}`)
    })
    const found: Record<string, string[]> = {}
    for (const [name, address] of SCREENS) {
      asked.clear()
      await page.goto(addressOf(address))
      await settled(page)
      // One that is repeated every few seconds counts once.
      if (asked.size > MOST_REQUESTS) found[name] = [...asked]
    }
    await page.context().close()
    expect(found).toEqual({})
  })
})

describe.skipIf(!hasBrowser).each(THEMES)('in the theme %s', (theme) => {
  it.concurrent.each([0, 1])('every screen can be read and used (half %i)', async (half) => {
    const watched = await stage.page({ width: WIDTHS[0], theme })
    const { page } = watched
    const found: Record<string, unknown> = {}
    for (const [name, address] of SCREENS.filter((_, i) => i % 2 === half)) {
      await page.goto(addressOf(address))
      await settled(page)
      const wrong = await wrongAtWidths(watched, theme, name)
      if (wrong.length > 0) found[name] = wrong
    }
    await page.context().close()
    expect(found).toEqual({})
  })

  it.concurrent('what is empty, partial or an error can be read, too', async () => {
    const width = theme === 'dark' ? 360 : 1440
    const watched = await stage.page({ width, theme })
    const { page } = watched
    const found: Record<string, unknown> = {}
    for (const [name, path, question, answer] of STATES) {
      await page.route(`**${question}`, async (route) => {
        if (answer === 'error') return route.fulfill({ status: 429, json: REFUSED })
        const { pathname, search } = new URL(route.request().url())
        const { json } = await stage.admin('GET', pathname.replace('/admin', '') + search)
        return route.fulfill({ json: changed(json, answer) })
      })
      await page.goto(path)
      await settled(page)
      await shoot(page, `${theme}/${width}/${name}`)
      found[name] = await wrongWith(watched, answer === 'error' ? 1 : 0)
      await page.unroute(`**${question}`)
    }
    await page.context().close()
    expect(Object.entries(found).filter(([, wrong]) => wrong)).toEqual([])
  })

  it('the pages of the holder of a key can be read and used', async () => {
    const watched = await stage.page({ width: WIDTHS[0], theme, token: undefined })
    const { page } = watched
    await page.goto('/me')
    await page.fill('input[type=password]', stage.gateway.key.secret)
    await page.getByLabel('Keep me signed in').check()
    await page.keyboard.press('Enter')
    await page.locator('.tabs').first().waitFor()
    const found: Record<string, unknown> = {}
    for (const part of OWN) {
      await page.goto(`/me${part}`)
      await settled(page)
      const wrong = await wrongAtWidths(watched, theme, `me${part.replace('/', '-')}`)
      if (wrong.length > 0) found[part] = wrong
    }
    await page.context().close()
    expect(found).toEqual({})
  })

  it('the sign-in can be read and used', async () => {
    const { page, faults } = await stage.page({ width: 360, theme, token: undefined })
    await page.goto('/console')
    await page.waitForSelector('input[type=password]')
    await shoot(page, `${theme}/360/signin`)
    expect([await violationsOf(page), await overflowOf(page), faults]).toEqual([[], 0, []])
    await page.context().close()
  })
})
