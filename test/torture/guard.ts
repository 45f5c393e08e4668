/**
 * `node test/torture/guard.ts`: how long other streams wait while the rules of one request, made to be hard, are held
 * against 1 MiB of text, going in and coming back. The gateway is in a process of its own; a stream beside the request
 * has an event every 5 ms, and what is printed is the longest gap between two of them, beside the one without the
 * request. Options: `--kib <n>` (1024).
 */
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { parseArgs } from 'node:util'
import { createTestGateway } from '../_setup.ts'
import { chunkOf, wholeOf } from '../guard/_setup.ts'
import { hostilePatterns } from '../guard/texts.ts'
import { startUpstream } from '../upstream.ts'

const { values } = parseArgs({ options: { kib: { type: 'string', default: '1024' } } })
const MODEL = {
  pricing: { prompt: '0', completion: '0' },
  capabilities: ['STREAMING'],
  deployments: [{ provider: 'vendor', model: 'm' }],
}

async function serve(vendor: string): Promise<void> {
  const t = await createTestGateway({
    providers: { vendor: { use: 'openai-compatible', options: { baseURL: `${vendor}/v1` } } },
    models: { 'acme/m': MODEL as never },
  })
  process.send!({ url: `${t.baseURL}/chat/completions`, key: t.key.secret })
  process.on('disconnect', () => process.exit())
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

async function run(): Promise<void> {
  const vendor = await startUpstream()
  const child = fork(import.meta.filename, { env: { ...process.env, VENDOR: vendor.url } })
  child.once('exit', (code) => code && child.emit('error', new Error(`ended with ${code}`)))
  process.once('exit', () => child.kill('SIGKILL'))
  const [{ url, key }] = await once(child, 'message')
  const ask = (body: object) =>
    fetch(url, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      body: JSON.stringify({ model: 'acme/m', ...body }),
    })
  const user = (content: string) => [{ role: 'user', content }]
  const beside = async (body: object, answer: string) => {
    const tick = `data: ${JSON.stringify(chunkOf({ content: 'tick ' }))}\n\n`
    const headers = { 'content-type': 'text/event-stream' }
    const ticks = { headers, pieces: Array<string>(50_000).fill(tick), pauseMs: 5 }
    vendor.answer(({ json }) => (json.stream ? ticks : wholeOf({ content: answer })))
    const { body: events } = await ask({ messages: user('Go on.'), stream: true })
    return longestGap(events!, async () => {
      const response = await ask(body)
      if (!response.ok) throw new Error(await response.text())
      await response.text()
    })
  }
  const length = Number(values.kib) * 1024
  for (const [name, patterns, textOf] of hostilePatterns()) {
    const text = textOf(length)
    const policy = { version: 1, bannedPatterns: patterns }
    const compiled = await beside({ messages: user('Hi'), policy }, 'Hi.')
    const asked = await beside({ messages: user(text), policy }, 'Hi.')
    const said = await beside({ messages: user('Hi'), policy }, text)
    const plain = await beside({ messages: user(text) }, text)
    const figures = { compiled, asked, said, plain }
    const shown = Object.entries(figures).map(([what, ms]) => `${what} ${ms.toFixed(0)} ms`)
    process.stdout.write(`${name}: ${shown.join(', ')}\n`)
  }
  child.disconnect()
  await vendor.close()
}

if (process.send) await serve(process.env.VENDOR!)
else await run()
