/** Every screen, in both themes and three widths: readable by everyone, nothing wider than the window, no errors. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { hasBrowser, overflowOf, settled, shoot, Stage, violationsOf } from './_browser.ts'
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
  ['guard', '/console/guard'],
  ['settings', '/console/settings?q=state'],
  ['settings-audit', '/console/settings/audit'],
  ['settings-gateways', '/console/settings/gateways'],
  ['play', '/console/play?model=mock/image'],
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
  ['policy', '/console/keys/KEY/policy'],
  ['accounts', '/console/accounts'],
  ['account', '/console/accounts/ACCOUNT/overview'],
  ['account-bookings', '/console/accounts/ACCOUNT/bookings'],
  ['account-statement', '/console/accounts/ACCOUNT/statement'],
]
const THEMES = ['light', 'dark'] as const
const WIDTHS = [1440, 760, 360] as const

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

describe.skipIf(!hasBrowser).each(THEMES)('in the theme %s', (theme) => {
  it.each(WIDTHS)('at %i px, every screen can be read and used', async (width) => {
    const { page, faults } = await stage.page({ width, theme })
    const found: Record<string, unknown> = {}
    for (const [name, address] of SCREENS) {
      const path = address.replace(/[A-Z]{3,}/g, (word) => places[word] ?? word)
      await page.goto(path)
      await settled(page)
      await shoot(page, `${theme}/${width}/${name}`)
      const violations = await violationsOf(page)
      const overflow = await overflowOf(page)
      const refused = /-(missing|wrong)$/.test(name) ? 0 : await page.locator('.notice.bad').count()
      if (violations.length + faults.length + refused > 0 || overflow > 0) {
        found[name] = { violations, faults: [...faults], refused, overflow }
      }
      faults.length = 0
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
