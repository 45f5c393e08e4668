/**
 * `node test/torture/guard.ts`: how long other streams wait while the rules of one request, made to be hard, are held
 * against 1 MiB of text, going in and coming back. The gateway is in a process of its own, and so is the client; a stream
 * beside the request has an event every 5 ms, and what is printed is the longest gap between two of them, beside the one
 * without rules. A gap has the machine in it, which has to run three processes: so the longest turn of the gateway's event
 * loop stands behind it, in ms of its thread's own time, and exit status 1 says that one took more than 50. Options:
 * `--kib <n>` (1024), `--only <part of a case's name>`.
 */
import { fork, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { parseArgs } from 'node:util'
import categories from '../../plugins/guards/categories.ts'
import pii from '../../plugins/guards/pii.ts'
import { createTestGateway } from '../_setup.ts'
import { chunkOf, wholeOf } from '../guard/_setup.ts'
import { hostilePatterns, ordinaryText } from '../guard/texts.ts'
import { startUpstream } from '../upstream.ts'

const { values } = parseArgs({
  options: { kib: { type: 'string', default: '1024' }, only: { type: 'string', default: '' } },
})
const LENGTH = Number(values.kib) * 1024
/** Most that a turn of the gateway's event loop may take of its thread's own time. */
const MAX_TURN_MS = 50

const OURS = { deny: ['personal-data', 'code', 'math'] }
const PERSONAL = { deny: ['personal-data'] }
const letters = hostilePatterns().find(([name]) => name === '200 letters')![2]
/** Neither of them blocks this: they look at all of a text. */
const fine = ordinaryText(15_000, 9).replaceAll('@', ' ')

/** A policy, and a text of any length that is hard under it. */
type Case = readonly [name: string, policy: object, text: (length: number) => string]

const CASES: readonly Case[] = [
  ...hostilePatterns().map(([name, bannedPatterns, text]): Case => [
    name,
    { bannedPatterns },
    text,
  ]),
  [
    'found at the end of it all',
    { bannedPatterns: ['[ab]{300}a[ab]*!', '[ab]{200}b[ab]*!'] },
    (length) => `${letters(length - 1)}!`,
  ],
  ['guards of ours', OURS, (length) => ordinaryText(length, 9)],
  ['guards of ours, nothing found', OURS, (length) => fine.repeat(length / fine.length)],
  ['pii, digits', PERSONAL, (length) => '1'.repeat(length)],
  ['pii, blanks', PERSONAL, (length) => ' '.repeat(length)],
  ['pii, digits and blanks', PERSONAL, (length) => '7 1'.repeat(length / 3)],
  ['pii, groups of digits', PERSONAL, (length) => '1234 5678 '.repeat(length / 10)],
  ['pii, base64', PERSONAL, (length) => 'YWJj'.repeat(length / 4)],
]

/** What is done beside the stream: compile the rules, look at what is asked, at what is said; and the same without rules. */
const WHATS = ['compiled', 'asked', 'said', 'plain'] as const
type What = (typeof WHATS)[number]

const user = (content: string) => [{ role: 'user', content }]

async function serve({ VENDOR, TICKER }: NodeJS.ProcessEnv): Promise<void> {
  const model = (provider: string) => ({
    pricing: { prompt: '0', completion: '0' },
    capabilities: ['STREAMING'],
    deployments: [{ provider, model: 'm' }],
  })
  const at = (url: string) => ({ use: 'openai-compatible', options: { baseURL: `${url}/v1` } })
  const t = await createTestGateway({
    providers: { vendor: at(VENDOR!), ticker: at(TICKER!) },
    models: { 'acme/m': model('vendor') as never, 'acme/ticker': model('ticker') as never },
    guards: { use: [{ use: pii }, { use: categories }] },
  })
  process.send!({ url: `${t.baseURL}/chat/completions`, key: t.key.secret })
  let longest = 0
  let before = threadMs()
  const turn = () => {
    const now = threadMs()
    longest = Math.max(longest, now - before)
    before = now
    setImmediate(turn)
  }
  turn()
  process.on('message', () => {
    process.send!({ longest })
    longest = 0
  })
}

/** What this thread has computed, ms. */
function threadMs(): number {
  const { user, system } = process.threadCpuUsage()
  return (user + system) / 1000
}

/** Asks when it is told to, and answers as the vendor. */
async function ask(): Promise<void> {
  const vendor = await startUpstream()
  process.send!({ url: vendor.url })
  process.on('message', async (message) => {
    const { url, key, index, what } = message as Asking
    const [, rules, textOf] = CASES[index]!
    const text = textOf(LENGTH)
    const answer = what === 'said' || what === 'plain' ? text : 'Hi.'
    vendor.answer(() => wholeOf({ content: answer }))
    const response = await fetch(url, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      body: JSON.stringify({
        model: 'acme/m',
        messages: user(what === 'asked' || what === 'plain' ? text : 'Hi.'),
        ...(what === 'plain' ? {} : { policy: { version: 1, ...rules } }),
      }),
    })
    const said = await response.text()
    process.send!(response.ok ? {} : { failed: said })
  })
}

interface Asking {
  readonly url: string
  readonly key: string
  readonly index: number
  readonly what: What
}

/** The longest gap in a stream while something is done, ms. */
async function longestGap(events: ReadableStream, run: () => Promise<unknown>): Promise<number> {
  const reader = events.getReader()
  await reader.read()
  let [longest, at] = [0, performance.now()]
  const watch = { over: false }
  const done = run().finally(() => (watch.over = true))
  while (!watch.over) {
    await reader.read()
    const now = performance.now()
    longest = Math.max(longest, now - at)
    at = now
  }
  await done
  await reader.cancel()
  return longest
}

function start(role: string, env: object = {}): ChildProcess {
  const child = fork(import.meta.filename, process.argv.slice(2), {
    env: { ...process.env, ROLE: role, ...env },
  })
  child.once('exit', (code) => code && child.emit('error', new Error(`${role} ended with ${code}`)))
  process.once('exit', () => child.kill('SIGKILL'))
  return child
}

async function run(): Promise<void> {
  const ticker = await startUpstream()
  const asker = start('ask')
  const [vendor] = await once(asker, 'message')
  const gateway = start('serve', { VENDOR: vendor.url, TICKER: ticker.url })
  const [{ url, key }] = await once(gateway, 'message')
  const tick = `data: ${JSON.stringify(chunkOf({ content: 'tick ' }))}\n\n`
  const headers = { 'content-type': 'text/event-stream' }
  ticker.answer(() => ({ headers, pieces: Array<string>(50_000).fill(tick), pauseMs: 5 }))
  for (const [index, [name]] of CASES.entries()) {
    if (!name.includes(values.only)) continue
    const shown: string[] = []
    for (const what of WHATS) {
      const { body: events } = await fetch(url, {
        method: 'POST',
        headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
        body: JSON.stringify({ model: 'acme/ticker', messages: user('Go on.'), stream: true }),
      })
      const turnOf = async (): Promise<number> => {
        gateway.send('')
        const [{ longest }] = await once(gateway, 'message')
        return longest
      }
      await turnOf()
      const gap = await longestGap(events!, async () => {
        asker.send({ url, key, index, what } satisfies Asking)
        const [{ failed }] = await once(asker, 'message')
        if (failed) throw new Error(failed)
      })
      const turn = await turnOf()
      if (turn > MAX_TURN_MS) process.exitCode = 1
      shown.push(`${what} ${gap.toFixed(0)} ms (${turn.toFixed(0)})`)
    }
    process.stdout.write(`${name}: ${shown.join(', ')}\n`)
  }
  gateway.disconnect()
  asker.disconnect()
  await ticker.close()
}

if (process.send) process.once('disconnect', () => process.exit())
if (process.env.ROLE === 'serve') await serve(process.env)
else if (process.env.ROLE === 'ask') await ask()
else await run()
