/** The gateway's stream of events, while the page is visible. */
import { useEffect, useRef } from 'preact/hooks'

/** Time after which a hidden page stops listening. */
const HIDDEN_MS = 60_000

/** Something that happened. */
export interface GatewayEvent {
  readonly type: string
  readonly data: unknown
}

/**
 * Calls `onEvent` for each event of the named types. The browser connects again by itself, and says where it stopped.
 * @param path null listens to nothing
 */
export function useEvents(
  path: string | null,
  types: readonly string[],
  onEvent: (event: GatewayEvent) => void,
): void {
  const latest = useRef(onEvent)
  latest.current = onEvent
  const names = types.join()
  useEffect(() => {
    if (path === null) return undefined
    let source: EventSource | undefined
    let timer: ReturnType<typeof setTimeout> | undefined
    const open = () => {
      if (source) return
      source = new EventSource(path)
      for (const type of names.split(',')) {
        source.addEventListener(type, (event: MessageEvent) =>
          latest.current({ type, data: parsed(event.data) }),
        )
      }
    }
    const close = () => {
      source?.close()
      source = undefined
    }
    const onVisibility = () => {
      clearTimeout(timer)
      if (document.hidden) timer = setTimeout(close, HIDDEN_MS)
      else open()
    }
    open()
    document.addEventListener('visibilitychange', onVisibility)
    return () => {
      clearTimeout(timer)
      document.removeEventListener('visibilitychange', onVisibility)
      close()
    }
  }, [path, names])
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
