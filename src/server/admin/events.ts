/** Live events as server-sent events. */
import {
  LIVE_EVENT_TYPES,
  type LiveEvent,
  type LiveEventType,
  type Watcher,
} from '../../observe/live-events.ts'
import { matches, type LogQuery } from '../../observe/log/query.ts'
import type { KnownCall } from '../../observe/record.ts'
import { wrongQuery } from '../../errors/query.ts'
import { callView, readQuery } from './requests.ts'
import { type AdminRequest, type Routes, needs } from './route.ts'

export const eventRoutes: Routes = {
  '/events': { GET: needs('read', streamEvents) },
}

/** Most texts that wait for a slow client. */
const MOST_WAITING = 100
/** How long events are gathered: writing each one by itself would cost as much as making it. */
const GATHER_MS = 250
const encoder = new TextEncoder()

/** Streams events until the client leaves. Filters as for requests; with any, only calls are sent. `type` chooses kinds. */
function streamEvents({ runtime, query, event }: AdminRequest): Response {
  const types = readTypes(query)
  const filters = new URLSearchParams([...query].filter(([name]) => name !== 'type'))
  const request = readQuery(filters)
  const isFiltered = filters.size > 0
  const after = event.req.headers.get('last-event-id') ?? undefined
  let stop = () => {}
  const body = new ReadableStream<Uint8Array>(
    {
      start(controller) {
        let waiting = ': events\n\n'
        let timer: NodeJS.Timeout | undefined
        const flush = () => {
          controller.enqueue(encoder.encode(waiting))
          waiting = ''
          timer = undefined
        }
        const write = (text: string) => {
          waiting += text
          timer ??= setTimeout(flush, GATHER_MS)
        }
        const watcher: Watcher = {
          ...(types.size > 0 && { types }),
          all: !isFiltered,
          wants: (one) => isWanted(one, request, isFiltered),
          take(one) {
            if ((controller.desiredSize ?? 0) <= 0) return false
            write(textOf(one))
            return true
          },
          idle: () => write(':\n\n'),
        }
        flush()
        const leave = runtime.events.watch(watcher, after)
        stop = () => {
          clearTimeout(timer)
          leave()
        }
      },
      cancel: () => stop(),
    },
    { highWaterMark: MOST_WAITING },
  )
  return new Response(body, {
    headers: {
      'content-type': 'text/event-stream',
      'cache-control': 'no-store',
      // Keeps nginx from buffering.
      'x-accel-buffering': 'no',
    },
  })
}

/** @throws InvalidRequest for an unknown name of an event */
function readTypes(query: URLSearchParams): ReadonlySet<LiveEventType> {
  return new Set(
    query.getAll('type').map((name) => {
      const type = LIVE_EVENT_TYPES.find((one) => one === name)
      if (type) return type
      throw wrongQuery('type', LIVE_EVENT_TYPES.join(', '))
    }),
  )
}

function isWanted(event: LiveEvent, request: LogQuery, isFiltered: boolean): boolean {
  return isOfCall(event) ? matches(event.data as KnownCall, request) : !isFiltered
}

function isOfCall({ type }: LiveEvent): boolean {
  return type.startsWith('call.') || type === 'guard.blocked'
}

function textOf(event: LiveEvent): string {
  const { id, type, data } = event
  const shown = isOfCall(event) ? callView(data as KnownCall, type === 'call.started') : data
  const line = id === '' ? '' : `id: ${id}\n`
  return `${line}event: ${type}\ndata: ${JSON.stringify(shown)}\n\n`
}
