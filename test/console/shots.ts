/** `npm run docs:shots`: the pictures of docs/console.md, from the month of `serve --demo`. */
import { mkdirSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import type { Page } from 'playwright-core'
import { send } from '../_setup.ts'
import { settled, type Visit } from './_browser.ts'
import { Demo } from './_demo.ts'

const FOLDER = resolve(import.meta.dirname, '../../docs/console')
const MOST_BYTES = 1_000_000
const QUALITY = 0.6

/** One picture: its name, its address, and what is done before it is taken. */
interface Shot {
  readonly name: string
  readonly path: string
  readonly visit?: Visit
  readonly before?: (page: Page) => Promise<unknown>
}

await using demo = await Demo.open()
const { request, key } = await placesOf()
await block()
const shots: readonly Shot[] = [
  { name: 'overview', path: '/console' },
  { name: 'overview-dark', path: '/console', visit: { theme: 'dark' } },
  { name: 'usage', path: '/console/usage?group=model' },
  { name: 'requests', path: '/console/requests?status=5xx&from=-30d' },
  { name: 'request', path: `/console/requests?from=-30d&open=${request}` },
  { name: 'account', path: '/console/accounts/northwind/overview' },
  { name: 'keys', path: '/console/keys' },
  { name: 'policy', path: `/console/keys/${key}/policy`, before: tryPolicy },
  { name: 'models', path: '/console/models' },
  { name: 'guard', path: '/console/guard' },
  { name: 'playground', path: '/console/play?key=hb-code&model=demo/meridian', before: ask },
  { name: 'phone', path: '/console/usage?group=model', visit: { width: 360, scale: 2 } },
]

rmSync(FOLDER, { recursive: true, force: true })
mkdirSync(FOLDER, { recursive: true })
let bytes = 0
for (const shot of shots) {
  const file = join(FOLDER, `${shot.name}.webp`)
  const { page } = await demo.visitors.page({ width: 1280, ...shot.visit })
  await page.goto(shot.path)
  await settled(page)
  await shot.before?.(page)
  await settled(page)
  const png = await page.screenshot()
  writeFileSync(file, await webpOf(page, png))
  await page.context().close()
  bytes += statSync(file).size
  process.stdout.write(`${shot.name} ${statSync(file).size}\n`)
}
process.stdout.write(`${bytes} bytes of at most ${MOST_BYTES}\n`)
if (bytes > MOST_BYTES) process.exitCode = 1

async function placesOf() {
  const from = new Date(Date.now() - 30 * 86_400_000).toISOString()
  const failed = await demo.admin('GET', `/requests?status=504&limit=1&from=${from}`)
  return { request: failed.json.data[0].id as string, key: 'nw-support' }
}

/** Calls that a policy blocks or watches: the demo's own ones are older than the process, which counts them. */
async function block(): Promise<void> {
  const rules = { version: 1, deny: ['medical', 'code'], bannedPatterns: ['project heron'] }
  const policies = { Reception: rules, Museum: { ...rules, guard: { mode: 'monitor' } } }
  const texts = [
    'What dose of ibuprofen may I take with warfarin?',
    'Write a Python function that sorts a list of numbers.',
    'Tell me about project heron',
    'When do you open on Sunday?',
  ]
  for (const [name, policy] of Object.entries(policies)) {
    const { json } = await demo.admin('POST', '/accounts/lumen/keys', { name, policy })
    const headers = { authorization: `Bearer ${json.key}`, 'content-type': 'application/json' }
    for (let i = 0; i < 24; i++) {
      const messages = [{ role: 'user', content: texts[i % (1 + (i % texts.length))]! }]
      const body = JSON.stringify({ model: 'demo/atlas-small', messages })
      await send(`${demo.url}/v1/chat/completions`, 'POST', body, headers)
    }
  }
}

/** A pattern, and a text that it finds something in. */
async function tryPolicy(page: Page): Promise<void> {
  await page.getByRole('button', { name: 'Add pattern' }).click()
  await page.getByLabel('Pattern 1', { exact: true }).fill('project (heron|egret)')
  await page.getByLabel('Output', { exact: true }).fill('The launch of Project Heron is in May.')
  await page.waitForSelector('.marked mark')
  await page.waitForSelector('text=tighter')
}

async function ask(page: Page): Promise<void> {
  await page.getByLabel('Message').fill('Which of our tests waits for time, and for what?')
  await page.getByRole('button', { name: 'Send' }).click()
  await page.getByText(/^done ·/).waitFor()
}

/** The same picture in fewer bytes, as the browser writes it. */
async function webpOf(page: Page, png: Buffer): Promise<Buffer> {
  const blank = await page.context().newPage()
  const url = await blank.evaluate(
    `(async () => {
      const image = new Image()
      image.src = 'data:image/png;base64,${png.toString('base64')}'
      await image.decode()
      const canvas = document.createElement('canvas')
      canvas.width = image.width
      canvas.height = image.height
      canvas.getContext('2d').drawImage(image, 0, 0)
      return canvas.toDataURL('image/webp', ${QUALITY})
    })()`,
  )
  return Buffer.from(String(url).split(',')[1]!, 'base64')
}
