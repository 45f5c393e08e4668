/** The gateway's stream of events, while the page is visible. */
import { at } from './base.ts'
import { useEffect, useRef, useState } from 'preact/hooks'

/** Time after which a hidden page stops listening. */
const HIDDEN_MS = 60_000
/** The pause before a refused stream is asked for again: doubled each time, up to the most. */
const RETRY_MS = { first: 1000, most: 30_000 } as const

/** An event; `again` means that the page listens after a time without a stream. */
interface GatewayEvent {
  readonly type: string
  readonly data: unknown
}

/**
 * Calls `onEvent` for each event of the named types. A stream that breaks or is refused is asked for again, with
 * growing pauses; then comes an event `again`, because some may have been missed.
 * @param path null listens to nothing
 * @returns whether the stream is lost for now
 */
export function useEvents(
  path: string | null,
  types: readonly string[],
  onEvent: (event: GatewayEvent) => void,
): boolean {
  const latest = useRef(onEvent)
  latest.current = onEvent
  const [isLost, setIsLost] = useState(false)
  const names = types.join()
  useEffect(() => {
    if (path === null) return undefined
    const listener = new Listener(path, names.split(','), (event) => latest.current(event))
    listener.onLost = setIsLost
    let timer: ReturnType<typeof setTimeout> | undefined
    const onVisibility = () => {
      clearTimeout(timer)
      if (document.hidden) timer = setTimeout(() => listener.close(), HIDDEN_MS)
      else listener.open()
    }
    listener.open()
    document.addEventListener('visibilitychange', onVisibility)
    return () => {
      clearTimeout(timer)
      document.removeEventListener('visibilitychange', onVisibility)
      listener.close()
    }
  }, [path, names])
  return path !== null && isLost
}

/** One stream. The browser repairs a connection that breaks; an answer other than 200 ends its attempts, and is repaired here. */
class Listener {
  /** It is called when the stream is lost, and when it is there again. */
  onLost: (isLost: boolean) => void = () => {}
  readonly #path: string
  readonly #types: readonly string[]
  readonly #onEvent: (event: GatewayEvent) => void
  #source: EventSource | undefined
  #timer: ReturnType<typeof setTimeout> | undefined
  #pauseMs: number = RETRY_MS.first
  /** Whether there was a stream before this one. */
  #isLater = false

  constructor(path: string, types: readonly string[], onEvent: (event: GatewayEvent) => void) {
    this.#path = path
    this.#types = types
    this.#onEvent = onEvent
  }

  open(): void {
    if (this.#source) return
    clearTimeout(this.#timer)
    const source = new EventSource(at(this.#path))
    this.#source = source
    for (const type of this.#types) {
      source.addEventListener(type, ({ data }: MessageEvent) =>
        this.#onEvent({ type, data: parsed(data) }),
      )
    }
    source.addEventListener('open', () => {
      this.#pauseMs = RETRY_MS.first
      this.onLost(false)
      if (this.#isLater) this.#onEvent({ type: 'again', data: undefined })
      this.#isLater = true
    })
    source.addEventListener('error', () => {
      this.onLost(true)
      if (source.readyState !== EventSource.CLOSED) return
      this.#source = undefined
      this.#timer = setTimeout(() => this.open(), this.#pauseMs)
      this.#pauseMs = Math.min(this.#pauseMs * 2, RETRY_MS.most)
    })
  }

  close(): void {
    clearTimeout(this.#timer)
    this.#source?.close()
    this.#source = undefined
  }
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
