/**
 * Finds a request, a key, an account, a vendor, a model, an end user or a page of the manual, and what can be done with it. A
 * pasted secret is looked for by its hash.
 */
import { useEffect, useRef, useState } from 'preact/hooks'
import { actsOf, COMMANDS, perform, type Act } from './acts.ts'
import { html } from './html.ts'
import { useKeys } from './keys.ts'
import { call, to } from './api.ts'
import { find, hitText, isSecret, useHits, wantedOf } from './parts/choose.ts'
import { Button } from './parts/button.ts'
import { go, manual } from './state.ts'
import type { Found } from '../server/admin/resources/overview.ts'

const SILENCE_MS = 120
/** The first letters of a verb from which on a word is one, as in `dis desk`. */
const VERB_LETTERS = 3

/** The most pages of the manual that are offered. */
const MOST_PAGES = 3

/** A thing that was found, an act on it, or one of no thing. */
interface Hit {
  readonly found?: Found
  readonly act?: Act
}

interface Answer {
  readonly hits: readonly Hit[]
  /** The text was a secret, which was not sent. */
  readonly bySecret: boolean
}

export function Search() {
  const [text, setText] = useState('')
  const [answer, setAnswer] = useState<Answer>()
  const field = useRef<HTMLInputElement>(null)
  const box = useRef<HTMLDivElement>(null)
  useKeys({ '/': () => field.current?.focus(), 'ctrl+k': () => field.current?.focus() })
  useEffect(() => {
    const wanted = text.trim()
    // What was found by a secret stays while the field is empty; it may have come before this runs.
    if (wanted === '') return setAnswer((present) => (present?.bySecret ? present : undefined))
    const controller = new AbortController()
    const timer = setTimeout(() => {
      look(wanted, controller.signal).then(setAnswer, () => {})
      if (isSecret(wanted)) setText('')
    }, SILENCE_MS)
    return () => {
      clearTimeout(timer)
      if (!isSecret(wanted)) controller.abort()
    }
  }, [text])
  const leave = () => {
    setText('')
    setAnswer(undefined)
    field.current?.blur()
  }
  const choose = ({ found, act }: Hit) => {
    leave()
    if (act) void perform(act)
    else go(hrefOf(found!))
  }
  const hits = answer?.hits
  const { at, setAt, onKeyDown } = useHits(hits, choose, leave)
  const active = hits?.[at]
  const onLeave = ({ relatedTarget }: FocusEvent) => {
    if (!box.current?.contains(relatedTarget as Node | null)) setAnswer(undefined)
  }
  return html`<div class="search" role="search" ref=${box} onFocusOut=${onLeave}>
    <input
      ref=${field}
      type="search"
      role="combobox"
      aria-label="Search requests, keys, accounts, vendors, models"
      aria-expanded=${hits ? 'true' : 'false'}
      aria-controls="hits"
      aria-activedescendant=${active ? `hit-${at}` : undefined}
      placeholder="Search  /"
      autocomplete="off"
      spellcheck=${false}
      value=${text}
      onInput=${(event: Event) => setText((event.target as HTMLInputElement).value)}
      onKeyDown=${onKeyDown}
    />
    <svg class="glass" viewBox="0 0 16 16" width="16" height="16" aria-hidden="true">
      <path d="M7 2a5 5 0 110 10A5 5 0 017 2zM10.500 10.500L14 14" />
    </svg>
    <div class=${hits ? 'found' : 'found hidden'}>
      <ul id="hits" role="listbox" aria-label="Found" class="hits">
        ${hits?.map(
          ({ found, act }, place) =>
            html`<li
              key=${`${act?.verb ?? ''} ${found?.kind} ${found?.id}`}
              id=${`hit-${place}`}
              role="option"
              aria-selected=${place === at ? 'true' : 'false'}
              onMouseEnter=${() => setAt(place)}
              onMouseDown=${(event: Event) => {
                event.preventDefault()
                choose(hits[place]!)
              }}
            >
              ${act && html`<b>${act.verb}${found && ': '}</b>`}${found && hitText(found, true)}
            </li>`,
        )}
        ${hits?.length === 0 && html`<li class="muted" role="option" aria-disabled="true">${answer!.bySecret ? 'No key has this secret. It was not sent: only its hash was.' : 'Nothing is called so.'}</li>`}
      </ul>
      ${active?.found && !active.act && html`<${HitActs} of=${active.found} bySecret=${answer!.bySecret} onDone=${leave} />`}
    </div>
  </div>`
}

/** The acts of the active hit: a pointer reaches them beside it, Tab from the field. */
function HitActs({
  of,
  bySecret,
  onDone,
}: {
  readonly of: Found
  readonly bySecret: boolean
  readonly onDone: () => void
}) {
  const leaked: Act = {
    verb: 'It has leaked',
    right: 'keys',
    href: to.key(of.id, 'overview', { act: 'leaked' }),
  }
  const acts = [...(bySecret ? [leaked] : []), ...actsOf(of)]
  if (acts.length === 0) return null
  return html`<div class="hit-acts" role="group" aria-label=${`What can be done with ${of.name}`}>
    ${acts.map(
      (act) =>
        html`<${Button}
          key=${act.verb}
          right=${act.right}
          onClick=${() => {
            onDone()
            void perform(act)
          }}
          >${act.verb}<//
        >`,
    )}
  </div>`
}

function hrefOf({ kind, id }: Found): string {
  if (kind === 'account') return to.account(id)
  if (kind === 'key') return to.key(id)
  if (kind === 'model') return to.model(id)
  if (kind === 'vendor') return to.vendor(id)
  return to.requests({ [kind]: id, from: '-30d' })
}

interface ManualPage {
  readonly page: string
  readonly title: string
}

/** Pages of the manual by their titles; asked for once, when something is looked for. */
let pages: Promise<readonly ManualPage[]> | undefined

async function manualHits(text: string): Promise<readonly Hit[]> {
  pages ??= call<{ data: readonly ManualPage[] }>('GET', to.manual('')).then(({ data }) => data)
  pages.catch(() => (pages = undefined))
  const words = text.toLowerCase().split(/\s+/)
  const matches = (await pages.catch(() => [])).filter(({ title }) =>
    words.every((word) => title.toLowerCase().includes(word)),
  )
  return matches.slice(0, MOST_PAGES).map(({ page, title }) => ({
    act: {
      verb: `Manual: ${title}`,
      right: 'read',
      act: async () => void (manual.value = page),
    },
  }))
}

async function look(text: string, signal: AbortSignal): Promise<Answer> {
  if (/^req_[0-9A-HJKMNP-TV-Z]{26}$/.test(text)) {
    go(to.request(text))
    return { hits: [], bySecret: false }
  }
  const bySecret = isSecret(text)
  const results = await find(await wantedOf(text), {}, signal)
  const words = text.toLowerCase().split(/\s+/)
  const begins = ({ verb }: Act) =>
    words.every((word) =>
      verb
        .toLowerCase()
        .split(' ')
        .some((one) => one.startsWith(word)),
    )
  const commands = text.length < VERB_LETTERS ? [] : COMMANDS.filter(begins)
  const things: Hit[] = results.map((one) => ({ found: one }))
  const orders: Hit[] = commands.map((act) => ({ act }))
  const pagesFound = bySecret || text.length < VERB_LETTERS ? [] : await manualHits(text)
  const [, verb = '', rest = ''] = /^(\S+)\s+(\S.*)$/.exec(text) ?? []
  if (bySecret || verb.length < VERB_LETTERS)
    return { hits: [...orders, ...things, ...pagesFound], bySecret }
  const objects = await find({ q: rest }, {}, signal)
  const acts = objects.flatMap((one) =>
    actsOf(one)
      .filter((act) => act.verb.toLowerCase().startsWith(verb.toLowerCase()))
      .map((act) => ({ found: one, act })),
  )
  return { hits: [...orders, ...acts, ...things, ...pagesFound], bySecret }
}
