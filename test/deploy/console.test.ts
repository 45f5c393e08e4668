/** The console as it is bundled into the package, in the machine's browser. */
import { mkdir } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { expect, inject, it } from 'vitest'
import { keyIn } from '../_cli.ts'
import { send } from '../_setup.ts'
import { hasBrowser, MOST_KIB, settled, TOKEN, Visitors, weightOf } from '../console/_browser.ts'
import { own } from './_installed.ts'
import { addressOf, startAs } from './_process.ts'

const { modules } = inject('installed')
/** The most answers of a first visit: files, and what they ask for. */
const MOST_ANSWERS = 12
const SCREENS = [
  '/console',
  '/console/usage',
  '/console/requests',
  '/console/keys',
  '/console/keys/KEY',
  '/console/accounts',
  '/console/accounts/ACCOUNT',
  '/console/models',
  '/console/guard',
  '/console/settings',
  '/console/play',
  '/me',
]

it.skipIf(!hasBrowser)('shows every screen', async () => {
  const cwd = join(dirname(modules), 'console')
  await mkdir(cwd)
  await own([cwd])
  const cli = join(modules, 'sluicegate/dist/src/cli.js')
  const env = { SLUICEGATE__ADMIN__TOKEN: TOKEN }
  const started = startAs([process.execPath, cli, '--port', '0', '--print-key'], cwd, env)
  const url = await addressOf(started)
  const ask = (path: string, token: string, body?: object) =>
    send(url + path, body ? 'POST' : 'GET', body && JSON.stringify(body), {
      authorization: `Bearer ${token}`,
      'content-type': 'application/json',
    })
  const messages = [{ role: 'user', content: 'Hello' }]
  const key = keyIn(started.out())
  const answer = await ask('/v1/chat/completions', key, { model: 'mock/echo', messages })
  expect(answer.status).toBe(200)
  const idOf = async (path: string) => (await ask(path, TOKEN)).json.data[0].id as string
  const places: Readonly<Record<string, string>> = {
    KEY: await idOf('/admin/keys'),
    ACCOUNT: await idOf('/admin/accounts'),
  }

  await using visitors = await Visitors.open(url)
  const { page, faults } = await visitors.page()
  const { kib, answers } = await weightOf(page, '/console')
  expect([kib < MOST_KIB, answers <= MOST_ANSWERS], `${kib} KiB, ${answers} answers`).toEqual([
    true,
    true,
  ])
  for (const address of SCREENS) {
    await page.goto(address.replace(/[A-Z]+/, (name) => places[name]!))
    await settled(page)
    expect(await page.locator('.notice.bad').allTextContents(), address).toEqual([])
  }
  await page.goto('/console/usage')
  await page.waitForSelector('.plot canvas')
  await page.goto('/console/settings/gateways')
  const link = page.getByRole('link', { name: 'Licenses of the libraries' })
  const licenses = await (await page.request.get((await link.getAttribute('href'))!)).text()
  for (const name of ['preact', '@preact/signals-core', '@preact/signals', 'htm', 'uplot'])
    expect(licenses).toMatch(new RegExp(`^${name}\n\n[^]{500}`, 'm'))
  expect(faults).toEqual([])
})
