/** Choosing one of very many: a field that searches as one types, and never replaces what was chosen by a hit. */
import { useEffect, useId, useRef, useState } from 'preact/hooks'
import { call, withQuery } from '../api.ts'
import { html, type Content } from '../html.ts'
import type { Found } from '../../server/admin/resources/overview.ts'

const SILENCE_MS = 120

/** What is looked for. A secret is not: its hash is, or its beginning, which lists show anyway. */
type Wanted = { readonly q: string } | { readonly sha256: string }

const OWN_ID = /^(?:req|key|acct|team|mem|tok|al|gw)_\w+$/
/** Number of characters of a secret that lists show. */
const SHOWN = 14

/** Whether a text is a key or a token: it must not be in a request, where logs of proxies would have it. */
export function isSecret(text: string): boolean {
  if (/^(?:sk-|once\.|slg_|sat_)\S{8}/.test(text)) return !OWN_ID.test(text) && text.length > SHOWN
  const isMixed = /[a-z]/.test(text) && /[A-Z]/.test(text) && /\d/.test(text)
  return /^[\w.~+/=-]{24,}$/.test(text) && isMixed && !OWN_ID.test(text)
}

/** The question for a text. Plain http beyond this machine has no hashes in the browser. */
export async function wantedOf(text: string): Promise<Wanted> {
  if (!isSecret(text)) return { q: text }
  const { subtle } = crypto as { readonly subtle?: SubtleCrypto }
  if (!subtle) return { q: text.slice(0, SHOWN) }
  const bytes = new Uint8Array(await subtle.digest('SHA-256', new TextEncoder().encode(text)))
  return { sha256: [...bytes].map((byte) => byte.toString(16).padStart(2, '0')).join('') }
}

export async function find(
  wanted: Wanted,
  of: Readonly<Record<string, string | undefined>>,
  signal: AbortSignal,
): Promise<readonly Found[]> {
  const url = withQuery('/admin/search', { ...of, ...wanted })
  return (await call<{ data: readonly Found[] }>('GET', url, { signal })).data
}

/** Arrows, Enter and Escape in a list of hits. @returns the place of the active hit, and the listener */
export function useHits<Hit>(
  hits: readonly Hit[] | undefined,
  choose: (hit: Hit) => void,
  leave: () => void,
) {
  const [at, setAt] = useState(0)
  useEffect(() => setAt(0), [hits])
  const onKeyDown = (event: KeyboardEvent) => {
    if (!hits) return
    if (event.key === 'ArrowDown') setAt(Math.min(hits.length - 1, at + 1))
    else if (event.key === 'ArrowUp') setAt(Math.max(0, at - 1))
    else if (event.key === 'Enter' && hits[at]) choose(hits[at])
    else if (event.key === 'Escape') leave()
    else return
    event.preventDefault()
    event.stopPropagation()
  }
  return { at, setAt, onKeyDown }
}

/** What one reads of a hit. */
export function hitText(
  { kind, id, name, state, start, account }: Found,
  withKind: boolean,
): Content {
  return html`${withKind && html`<span class="muted">${kind}</span> `}<b>${name}</b>
    ${account !== undefined && html`<span class="muted"> ${account}</span>`}
    ${name !== id && html`<span class="mono muted"> ${id}</span>`}
    ${start !== undefined && html`<code class="muted"> ${start}…</code>`}
    ${state !== undefined && state !== 'active' && html`<span class="warn"> ${state}</span>`}`
}

const MOST_HITS = 20

/** Those whose name begins so, and then those that have the text elsewhere. */
function hitsAmong(all: readonly Found[], text: string): readonly Found[] {
  const matches = all.filter(({ name }) => name.toLowerCase().includes(text))
  const begins = ({ name }: Found) => name.toLowerCase().startsWith(text)
  return [...matches.filter(begins), ...matches.filter((one) => !begins(one))].slice(0, MOST_HITS)
}

/**
 * A field for one account, key, team, model or deployment.
 * @param props.value the id that is chosen; empty for none
 * @param props.known the name of the value, where it is known: it is not asked for
 * @param props.onChoose gets the id, and the whole hit where one was chosen
 * @param props.of narrows what is looked through, such as the account of a team
 * @param props.among all there are, where the page has them: nothing is asked then
 */
export function Choose({
  kind,
  label,
  value,
  known,
  onChoose,
  of,
  among,
  help,
  error,
  placeholder,
  autofocus,
}: {
  readonly kind: Found['kind']
  readonly label: string
  readonly value: string
  readonly known?: string | undefined
  readonly onChoose: (id: string, hit?: Found) => void
  readonly of?: Readonly<Record<string, string | undefined>>
  readonly among?: readonly Found[]
  readonly help?: Content
  readonly error?: string | undefined
  readonly placeholder?: string
  readonly autofocus?: boolean
}) {
  const id = useId()
  const [chosen, setChosen] = useState<Found>()
  const [text, setText] = useState<string>()
  const [isOpen, setOpen] = useState(false)
  const [hits, setHits] = useState<readonly Found[]>()
  const field = useRef<HTMLInputElement>(null)
  const narrowed = { kind, ...of }
  const name = chosen?.id === value ? chosen.name : (known ?? value)
  useEffect(() => {
    if (value === '' || known !== undefined || among || chosen?.id === value) return undefined
    const controller = new AbortController()
    find({ q: value }, narrowed, controller.signal).then(
      (all) => setChosen(all.find((one) => one.id === value)),
      () => {},
    )
    return () => controller.abort()
  }, [value, kind])
  useEffect(() => {
    if (!isOpen) return setHits(undefined)
    if (among) return setHits(hitsAmong(among, text?.trim().toLowerCase() ?? ''))
    const controller = new AbortController()
    const timer = setTimeout(async () => {
      const typed = text?.trim() ?? ''
      const wanted = await wantedOf(typed)
      if (isSecret(typed)) field.current!.value = ''
      find(wanted, narrowed, controller.signal).then(setHits, () => {})
    }, SILENCE_MS)
    return () => {
      clearTimeout(timer)
      controller.abort()
    }
  }, [isOpen, text, JSON.stringify(narrowed)])
  const leave = () => {
    setOpen(false)
    setText(undefined)
  }
  const choose = (hit: Found) => {
    setChosen(hit)
    leave()
    onChoose(hit.id, hit)
  }
  const { at, onKeyDown } = useHits(hits, choose, leave)
  // A text that is emptied chooses nothing; another one that is left stands for nothing, and the chosen thing is shown again.
  const onBlur = () => {
    if (text?.trim() === '' && value !== '') onChoose('')
    leave()
  }
  const described = [help ? `${id}-help` : '', error ? `${id}-error` : ''].filter(Boolean).join(' ')
  return html`<div class=${error ? 'field wrong choose' : 'field choose'}>
    <div class="field-head"><label for=${id}>${label}</label></div>
    <input
      ref=${field}
      id=${id}
      type="text"
      role="combobox"
      autocomplete="off"
      spellcheck=${false}
      autofocus=${autofocus}
      aria-expanded=${hits ? 'true' : 'false'}
      aria-controls=${`${id}-hits`}
      aria-activedescendant=${hits && hits.length > 0 ? `${id}-${at}` : undefined}
      aria-describedby=${described || undefined}
      aria-invalid=${error ? 'true' : undefined}
      placeholder=${placeholder ?? 'search'}
      value=${text ?? name}
      title=${value}
      onFocus=${() => {
        field.current!.select()
        setOpen(true)
      }}
      onClick=${() => setOpen(true)}
      onInput=${(event: Event) => {
        setOpen(true)
        setText((event.target as HTMLInputElement).value)
      }}
      onKeyDown=${onKeyDown}
      onBlur=${onBlur}
    />
    <ul id=${`${id}-hits`} role="listbox" aria-label="Found" class=${hits ? 'hits' : 'hits hidden'}>
      ${hits?.map(
        (hit, place) =>
          html`<li
            key=${hit.id}
            id=${`${id}-${place}`}
            role="option"
            aria-selected=${place === at ? 'true' : 'false'}
            onMouseDown=${(event: Event) => {
              event.preventDefault()
              choose(hit)
            }}
          >
            ${hitText(hit, false)}
          </li>`,
      )}
      ${hits?.length === 0 && html`<li class="muted" role="option" aria-disabled="true">Nothing is called so.</li>`}
    </ul>
    ${help ? html`<p class="help" id=${`${id}-help`}>${help}</p>` : null}
    ${error ? html`<p class="error" id=${`${id}-error`}>${error}</p>` : null}
  </div>`
}
