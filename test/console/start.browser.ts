/**
 * The guided start: it leads from an empty folder and a vendor's key to a first call and a client key, on one page,
 * without a file.
 */
import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { send } from '../_setup.ts'
import { json, startUpstream } from '../upstream.ts'
import { hasBrowser, overflowOf, settled, shoot, violationsOf } from './_browser.ts'
import { Demo } from './_demo.ts'
import { Keyboard, Pointer } from './_hands.ts'

const KEY = 'vk-live-Zq7RmW2xJ4tYh8LpB6nC'
const MODEL = 'mistral-large-2512'

/** A vendor at an address of its own, with one model that has a price. */
async function vendor() {
  const upstream = await startUpstream()
  onTestFinished(() => upstream.close())
  upstream.answer(({ path, headers }) => {
    if (headers.authorization !== `Bearer ${KEY}`) return json({ message: 'Unauthorized' }, 401)
    if (path.endsWith('/models'))
      return json({ data: [{ id: MODEL, capabilities: { completion_chat: true } }] })
    const message = { role: 'assistant', content: 'Hello from the vendor.' }
    const usage = { prompt_tokens: 3, completion_tokens: 4, total_tokens: 7 }
    const choices = [{ index: 0, finish_reason: 'stop', message }]
    return json({ id: 'c1', object: 'chat.completion', created: 1, model: MODEL, choices, usage })
  })
  return upstream
}

it.skipIf(!hasBrowser).each([
  ['clicks', Pointer, 7],
  ['keys', Keyboard, 20],
] as const)('a vendor is set up, called and given to a client by %s', async (kind, Kind, most) => {
  const upstream = await vendor()
  const cwd = mkdtempSync(join(tmpdir(), 'start-'))
  onTestFinished(() => rmSync(cwd, { recursive: true, force: true }))
  await using own = await Demo.open([], false, cwd)
  const before = readdirSync(cwd)
  const { page, faults } = await own.visitors.page({ isNew: true })
  const began = performance.now()
  await page.goto('/console')
  await page.getByLabel('Search vendors').waitFor()
  await settled(page)
  await shoot(page, `start/${kind}`)
  const hands = new Kind(page)
  const paste = async (text: string) => {
    await page.keyboard.press('Control+A')
    await page.keyboard.insertText(text)
  }
  if (kind === 'keys') {
    await page.keyboard.type('mistral')
    await hands.press('', 'Enter')
  } else await hands.press('mistral')
  await page.getByLabel('API key').waitFor()

  // The stand-in's address, which a vendor's own has by itself.
  await page.evaluate(`document.querySelector('form details').open = true`)
  await page.getByLabel('Address').fill(`${upstream.url}/v1`)
  await page.getByLabel('API key').focus()

  await paste('a wrong key')
  await page.keyboard.press('Enter')
  await page.getByText('did not accept the credentials').waitFor()
  await shoot(page, `start/refused-${kind}`)
  await page.getByLabel('API key').focus()
  await paste(KEY)
  await hands.press('Continue', 'Enter')
  await page.getByText('All models with a price').waitFor()
  await hands.press('Serve them', 'Enter')
  await page.getByRole('button', { name: 'Create key' }).waitFor()
  await hands.press('Create key', 'Enter')
  await page.locator('.secret code').waitFor()
  await hands.press('Send', 'Enter')
  await page.getByText('Hello from the vendor.').waitFor()
  const seconds = (performance.now() - began) / 1000
  process.stdout.write(`TASK first vendor: ${hands.count} ${kind}, ${seconds.toFixed(1)} s\n`)
  expect(hands.count).toBeLessThanOrEqual(most)
  await settled(page)
  await shoot(page, `start/done-${kind}`)
  await expect
    .poll(() => page.getByLabel('Claude Code').textContent())
    .toContain(`ANTHROPIC_MODEL=mistral/${MODEL}`)

  // What Claude Code sends with these variables.
  const secret = (await page.textContent('.secret code'))!
  const body = {
    model: `mistral/${MODEL}`,
    max_tokens: 64,
    messages: [{ role: 'user', content: 'Hi' }],
  }
  const headers = { authorization: `Bearer ${secret}`, 'content-type': 'application/json' }
  const answer = await send(`${own.url}/v1/messages`, 'POST', JSON.stringify(body), headers)
  expect(answer.json.content).toMatchObject([{ type: 'text', text: 'Hello from the vendor.' }])
  expect(readdirSync(cwd)).toEqual(before)
  expect(await violationsOf(page)).toEqual([])
  expect(await overflowOf(page)).toBe(0)
  expect(await page.content()).not.toContain(KEY)
  expect(faults).toEqual([])
})
