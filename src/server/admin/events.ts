/** `GET /admin/events`: what happens, as server-sent events. */
import type { LiveEvent, Watcher } from '../../observe/live-events.ts'
import { matches, type LogQuery, type LogRow } from '../../observe/log/query.ts'
import { readQuery, requestView } from './requests.ts'
import type { Asked } from './route.ts'

/** Events that wait for a slow client. */
const MOST_WAITING = 500
const encoder = new TextEncoder()

/** A stream of events until the client leaves. Filters as for requests; with any, only calls are sent. */
export function streamEvents({ runtime, query, event }: Asked): Response {
  const asked = readQuery(query)
  const isFiltered = query.size > 0
  const after = event.req.headers.get('last-event-id') ?? undefined
  let stop = () => {}
  const body = new ReadableStream<Uint8Array>(
    {
      start(controller) {
        controller.enqueue(encoder.encode(': events\n\n'))
        const watcher: Watcher = {
          all: !isFiltered,
          wants: (one) => isWanted(one, asked, isFiltered),
          take(one) {
            if ((controller.desiredSize ?? 0) <= 0) return false
            controller.enqueue(encoder.encode(textOf(one)))
            return true
          },
          idle: () => controller.enqueue(encoder.encode(':\n\n')),
        }
        stop = runtime.events.watch(watcher, after)
      },
      cancel: () => stop(),
    },
    { highWaterMark: MOST_WAITING },
  )
  return new Response(body, {
    headers: {
      'content-type': 'text/event-stream',
      'cache-control': 'no-store',
      // nginx would keep events back.
      'x-accel-buffering': 'no',
    },
  })
}

function isWanted(event: LiveEvent, asked: LogQuery, isFiltered: boolean): boolean {
  return isOfCall(event) ? matches(event.data as LogRow, asked) : !isFiltered
}

function isOfCall({ type }: LiveEvent): boolean {
  return type.startsWith('call.') || type === 'guard.blocked'
}

function textOf(event: LiveEvent): string {
  const { id, type, data } = event
  const shown = isOfCall(event) ? requestView(data as LogRow, type === 'call.started') : data
  const line = id === '' ? '' : `id: ${id}\n`
  return `${line}event: ${type}\ndata: ${JSON.stringify(shown)}\n\n`
}
