/** Finds a request, a key, an account or a model by id or name. */
import { useEffect, useRef, useState } from 'preact/hooks'
import { call, withQuery } from './api.ts'
import { html } from './html.ts'
import { useKeys } from './keys.ts'
import { go } from './state.ts'

const SILENCE_MS = 150

interface Hit {
  readonly kind: string
  readonly id: string
  readonly name: string
  readonly href: string
}

export function Search() {
  const [text, setText] = useState('')
  const [hits, setHits] = useState<readonly Hit[]>()
  const [at, setAt] = useState(0)
  const field = useRef<HTMLInputElement>(null)
  useKeys({ '/': () => field.current?.focus(), 'ctrl+k': () => field.current?.focus() })
  useEffect(() => {
    setAt(0)
    const wanted = text.trim()
    if (wanted === '') return setHits(undefined)
    const controller = new AbortController()
    const timer = setTimeout(() => {
      find(wanted, controller.signal).then(setHits, () => {})
    }, SILENCE_MS)
    return () => {
      clearTimeout(timer)
      controller.abort()
    }
  }, [text])
  const leave = () => {
    setText('')
    setHits(undefined)
    field.current?.blur()
  }
  const choose = (hit: Hit | undefined) => {
    if (!hit) return
    leave()
    go(hit.href)
  }
  const onKey = (event: KeyboardEvent) => {
    const last = (hits?.length ?? 0) - 1
    if (event.key === 'ArrowDown') setAt(Math.min(last, at + 1))
    else if (event.key === 'ArrowUp') setAt(Math.max(0, at - 1))
    else if (event.key === 'Enter') choose(hits?.[at] ?? exact(text.trim()))
    else if (event.key === 'Escape') leave()
    else return
    event.preventDefault()
  }
  return html`<div class="search" role="search">
    <input
      ref=${field}
      type="search"
      role="combobox"
      aria-label="Search requests, keys, accounts, models"
      aria-expanded=${hits ? 'true' : 'false'}
      aria-controls="hits"
      aria-activedescendant=${hits && hits.length > 0 ? `hit-${at}` : undefined}
      placeholder="Search  /"
      autocomplete="off"
      spellcheck=${false}
      value=${text}
      onInput=${(event: Event) => setText((event.target as HTMLInputElement).value)}
      onKeyDown=${onKey}
      onBlur=${() => setTimeout(() => setHits(undefined), SILENCE_MS)}
    />
    <ul id="hits" role="listbox" aria-label="Found" class=${hits ? 'hits' : 'hits hidden'}>
      ${hits?.map(
        (hit, index) =>
          html`<li
            key=${hit.href}
            id=${`hit-${index}`}
            role="option"
            aria-selected=${index === at ? 'true' : 'false'}
            onMouseDown=${(event: Event) => {
              event.preventDefault()
              choose(hit)
            }}
          >
            <span class="muted">${hit.kind}</span> <b>${hit.name}</b>
            ${hit.name !== hit.id && html`<span class="mono muted">${hit.id}</span>`}
          </li>`,
      )}
      ${hits?.length === 0 && html`<li class="muted" role="option" aria-disabled="true">Nothing is called so.</li>`}
    </ul>
  </div>`
}

function exact(text: string): Hit | undefined {
  if (/^req_[0-9A-HJKMNP-TV-Z]{26}$/.test(text)) {
    return {
      kind: 'request',
      id: text,
      name: '',
      href: withQuery('/console/requests', { open: text }),
    }
  }
  return undefined
}

const PLACES: Readonly<Record<string, (id: string) => string>> = {
  account: (id) => `/console/accounts/${encodeURIComponent(id)}/overview`,
  key: (id) => `/console/keys/${encodeURIComponent(id)}/overview`,
  model: (id) => withQuery('/console/models', { open: id }),
}

async function find(text: string, signal: AbortSignal): Promise<readonly Hit[]> {
  const place = exact(text)
  if (place) return [place]
  const url = withQuery('/admin/search', { q: text })
  const { data } = await call<{ data: readonly Omit<Hit, 'href'>[] }>('GET', url, { signal })
  return data.map((one) => ({ ...one, href: PLACES[one.kind]!(one.id) }))
}
