/** `requests tail`: a line for each call that ends, until the reader leaves. */
import { setTimeout as sleep } from 'node:timers/promises'
import { EventSourceParserStream } from 'eventsource-parser/stream'
import type { Admin } from './admin.ts'
import type { Arguments } from './command.ts'
import { REQUEST_FILTERS } from '../server/admin/resources/request.ts'
import { cell, parseExact, say } from './output.ts'
import { withQuery } from './settings.ts'
import { endOf } from './shown.ts'

const AGAIN_MS = 1000

/** Begins again after a restart of the gateway. */
export async function tailRequests(admin: Admin, args: Arguments): Promise<void> {
  const path = withQuery('/events', args, Object.keys(REQUEST_FILTERS))
  let { body } = await admin.open(path)
  while (process.stdout.writable) {
    // A gateway that ends may cut the stream off.
    await printEvents(args, body!).catch(() => {})
    if (args.text.data !== undefined) return
    process.stderr.write('The gateway has left; waiting for it.\n')
    for (;;) {
      await sleep(AGAIN_MS)
      const answer = await admin.open(path).catch(() => undefined)
      if (answer) ({ body } = answer)
      if (answer || !process.stdout.writable) break
    }
  }
}

async function printEvents(args: Arguments, body: ReadableStream<Uint8Array>): Promise<void> {
  const events = body
    .pipeThrough(new TextDecoderStream() as unknown as TransformStream<Uint8Array, string>)
    .pipeThrough(new EventSourceParserStream())
  for await (const { event, data } of events) {
    if (event === 'skipped') process.stderr.write(`${JSON.parse(data).count} calls left out\n`)
    if (event !== 'call.ended' && event !== 'call.refused') continue
    if (args.on.has('json')) process.stdout.write(`${data}\n`)
    else say(lineOf(parseExact(data)))
  }
}

function lineOf(call: any): string {
  const { at, status, times, model, key_id, cost_usd, id } = call
  const members = [at, status, endOf(call), `${cell(times.total_ms)} ms`, model, key_id]
  const cost = cost_usd === null ? null : `$${cell(cost_usd)}`
  return `${[...members, cost, id].map((one) => cell(one)).join('  ')}\n`
}
