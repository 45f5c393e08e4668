/** Importing prices of a public list: what would change, what is held back and why. Only what is ticked is written. */
import { useState } from 'preact/hooks'
import { call } from '../api.ts'
import { count } from '../format.ts'
import { html, type Content } from '../html.ts'
import { Button } from '../parts/button.ts'
import { FormEnd, SelectField, TextField, useFocus, useSubmission } from '../parts/form.ts'
import { Heads } from '../parts/heads.ts'
import { Dialog } from '../parts/sheet.ts'
import { Failure, Notice } from '../parts/states.ts'
import type { HeldMove, PriceComparison, PriceMove } from '../../server/admin/resources/model.ts'

const FILE = 'file'
const TEXT = 'text'
const SOURCES = [
  { value: 'models.dev', label: 'models.dev' },
  { value: 'litellm', label: 'LiteLLM' },
  { value: 'genai-prices', label: 'genai-prices' },
  { value: 'openrouter', label: 'OpenRouter' },
  { value: FILE, label: 'A file of this machine' },
  { value: TEXT, label: 'Text that is pasted' },
]
const PATH = '/admin/models/import'

export function PriceImport({
  onDone,
  onClose,
}: {
  readonly onDone: () => void
  readonly onClose: () => void
}) {
  const [source, setSource] = useState(SOURCES[0]!.value)
  const [file, setFile] = useState<File>()
  const [text, setText] = useState('')
  const [missing, setMissing] = useState(false)
  const [comparison, setComparison] = useState<{
    readonly request: object
    readonly result: PriceComparison
  }>()
  const dry = useSubmission(async () => {
    const isMissing = (source === FILE && !file) || (source === TEXT && text.trim() === '')
    setMissing(isMissing)
    if (isMissing) return
    const request =
      source === FILE
        ? { from: file!.name, text: await file!.text() }
        : source === TEXT
          ? { from: 'the pasted list', text }
          : { from: source }
    const { data } = await call<{ data: PriceComparison }>('POST', PATH, { body: request })
    setComparison({ request, result: data })
  })
  return html`<${Dialog} title="Import prices" wide onClose=${onClose}>
    ${
      comparison
        ? html`<${Review}
            ...${comparison}
            onBack=${() => setComparison(undefined)}
            onWritten=${() => {
              onDone()
              onClose()
            }}
          />`
        : html`<form class="form" onSubmit=${dry.submit}>
            <${SelectField}
              label="From"
              value=${source}
              options=${SOURCES}
              autofocus
              onChange=${setSource}
              help="A list is fetched by the gateway. Nothing is written before you have seen what changes."
            />
            ${
              source === FILE &&
              html`<div class=${missing && !file ? 'field wrong' : 'field'}>
                <label class="file">
                  <span>File</span>
                  <input
                    type="file"
                    accept=".json,application/json"
                    onChange=${(event: Event) =>
                      setFile((event.target as HTMLInputElement).files?.[0])}
                  />
                </label>
                ${missing && !file ? html`<p class="error">Choose a price list, a JSON file.</p>` : null}
              </div>`
            }
            ${source === TEXT && html`<${TextField} label="Text of the list, JSON" value=${text} onInput=${setText} rows=${8} mono error=${missing && text.trim() === '' ? 'Paste a price list, a JSON text.' : undefined} />`}
            <${FormEnd} form=${dry} verb="Compare" onClose=${onClose} />
          </form>`
    }
  <//>`
}

function Review({
  request,
  result,
  onBack,
  onWritten,
}: {
  readonly request: object
  readonly result: PriceComparison
  readonly onBack: () => void
  readonly onWritten: () => void
}) {
  const { added, changed, removed, held, same, own_prices: own, writable } = result
  const unread = unreadOf(result)
  const models = [...new Set([...added, ...changed.map(({ model }) => model)])]
  const [left, setLeft] = useState<ReadonlySet<string>>(new Set())
  const [accepted, setAccepted] = useState<ReadonlySet<string>>(new Set())
  const chosen = models.filter((model) => !left.has(model))
  const ofHeld = held.filter(({ accept }) => accepted.has(accept))
  const write = useSubmission(async () => {
    const only = [...new Set([...chosen, ...ofHeld.map(({ model }) => model)])]
    const body = { ...request, only, accept: [...accepted], write: true }
    await call('POST', PATH, { body })
    onWritten()
  })
  const many = chosen.length + ofHeld.length
  return html`<form class="stack" ref=${useFocus('.actions button')} onSubmit=${write.submit}>
    <p>
      ${count(added.length)} new, ${count(changed.length)} changed, ${count(held.length)} held back,
      ${' '}${count(same)} the same${removed.length > 0 ? `, ${count(removed.length)} gone from the list` : ''}.
    </p>
    ${!writable && html`<${Notice} tone="warn">The gateway may not write prices.json: nothing can be taken over here.<//>`}
    ${
      models.length + held.length === 0 &&
      (same > 0
        ? html`<${Notice} tone="ok">Nothing changes: the prices of ${count(same)} ${same === 1 ? 'model are' : 'models are'} up to date.<//>`
        : html`<${Notice} tone="warn">This list has no price that could be taken over.<//>`)
    }
    ${
      unread.length > 0 &&
      html`<section>
        <h3>Left out</h3>
        <ul class="plain-list">
          ${unread.map((what) => html`<li key=${what}>${what}</li>`)}
        </ul>
      </section>`
    }
    ${
      own.length > 0 &&
      html`<p class="muted">
        Prices of the configuration that differ, and stay: ${[...new Set(own.map(({ model }) => model))].join(', ')}.
      </p>`
    }
    ${
      changed.length > 0 &&
      html`<${Moves}
        title="Changed"
        moves=${changed}
        isOn=${({ model }: PriceMove) => !left.has(model)}
        toggle=${({ model }: PriceMove) => setLeft(toggled(left, model))}
      />`
    }
    ${
      added.length > 0 &&
      html`<section>
        <h3>New</h3>
        ${added.map(
          (model) =>
            html`<label class="check" key=${model}>
              <input
                type="checkbox"
                checked=${!left.has(model)}
                onChange=${() => setLeft(toggled(left, model))}
              />${model}
            </label>`,
        )}
      </section>`
    }
    ${
      held.length > 0 &&
      html`<${Moves}
        title="Held back"
        moves=${held}
        isOn=${(move: HeldMove) => accepted.has(move.accept)}
        toggle=${(move: HeldMove) => setAccepted(toggled(accepted, move.accept))}
        why=${(move: HeldMove) => move.reason}
      />`
    }
    ${write.error && html`<${Failure} error=${write.error} />`}
    <div class="actions">
      ${many > 0 && writable && html`<${Button} kind="primary" type="submit" busy=${write.busy}>Write ${count(many)}<//>`}
      <${Button} onClick=${onBack}>Back<//>
    </div>
  </form>`
}

function Moves<One extends PriceMove>({
  title,
  moves,
  isOn,
  toggle,
  why,
}: {
  readonly title: string
  readonly moves: readonly One[]
  readonly isOn: (move: One) => boolean
  readonly toggle: (move: One) => void
  readonly why?: (move: One) => Content
}) {
  return html`<section>
    <h3>${title}</h3>
    <table class="plain">
      <${Heads} names=${['Take over', 'Before', 'After', why ? 'Why' : 'Change']} />
      <tbody>
        ${moves.map(
          (move) =>
            html`<tr key=${`${move.model}:${move.price ?? ''}`}>
              <td>
                <label class="check">
                  <input type="checkbox" checked=${isOn(move)} onChange=${() => toggle(move)} />
                  <span>${move.model}<br /><span class="muted">${move.price ?? 'model'}</span></span>
                </label>
              </td>
              <td class="mono muted">${move.from || 'none'}</td>
              <td class="mono">${move.to || 'none'}</td>
              <td>${move.move ?? ''} ${why?.(move)}</td>
            </tr>`,
        )}
      </tbody>
    </table>
  </section>`
}

function toggled(set: ReadonlySet<string>, one: string): ReadonlySet<string> {
  const next = new Set(set)
  if (!next.delete(one)) next.add(one)
  return next
}

/** What the lists have and this gateway does not take, with how many of each. */
function unreadOf({ sources }: PriceComparison): readonly string[] {
  const many = (number: number, what: string) =>
    `${count(number)} ${what}${number === 1 ? '' : 's'}`
  return sources.flatMap(({ left_out: out, not_mapped: unmapped }) => [
    ...Object.entries(out).map(([why, rows]) => `${many(rows, 'row')} ${why}`),
    ...Object.entries(unmapped).map(([unit, prices]) => `${many(prices, 'price')} in ${unit}`),
  ])
}
