/** Filters of a list, as chips in its address: the same name twice is "or", different names are "and". */
import { useRef, useState } from 'preact/hooks'
import { html } from '../html.ts'
import { useKeys } from '../keys.ts'
import { place, setQuery } from '../state.ts'
import { Button } from './button.ts'
import { Choose } from './choose.ts'
import type { Found } from '../../server/admin/resources/overview.ts'

export interface Filter {
  readonly name: string
  readonly label: string
  /** Values to choose from; without them any text. */
  readonly values?: readonly string[]
  readonly placeholder?: string
  /** The kind of things to choose from, where there are very many. */
  readonly chooses?: Found['kind']
}

export function Filters({ filters }: { readonly filters: readonly Filter[] }) {
  const [open, setOpen] = useState(false)
  const opener = useRef<HTMLSpanElement>(null)
  const { query } = place.value
  const set = filters.flatMap(({ name, label }) =>
    query.getAll(name).map((value) => ({ name, label, value })),
  )
  const remove = (name: string, value: string) =>
    setQuery({ [name]: query.getAll(name).filter((one) => one !== value) })
  useKeys({ f: () => setOpen(true) })
  return html`<div class="filters" role="group" aria-label="Filters">
    ${set.map(
      ({ name, label, value }) =>
        html`<span class="chip" key=${`${name}=${value}`}>
          <span>${label}: <b>${value || 'none'}</b></span>
          <button
            type="button"
            aria-label=${`Remove the filter ${label}: ${value || 'none'}`}
            onClick=${() => remove(name, value)}
          >
            ✕
          </button>
        </span>`,
    )}
    ${
      open
        ? html`<${NewFilter}
            filters=${filters}
            onDone=${() => {
              setOpen(false)
              requestAnimationFrame(() => opener.current?.querySelector('button')?.focus())
            }}
          />`
        : html`<span ref=${opener}
            ><${Button} kind="quiet" onClick=${() => setOpen(true)}>+ Filter<//></span
          >`
    }
    ${
      set.length > 1 &&
      html`<${Button}
        kind="quiet"
        onClick=${() => setQuery(Object.fromEntries(set.map(({ name }) => [name, undefined])))}
        >Clear<//
      >`
    }
  </div>`
}

export function isFiltered(filters: readonly Filter[]): boolean {
  return filters.some(({ name }) => place.value.query.has(name))
}

function NewFilter({
  filters,
  onDone,
}: {
  readonly filters: readonly Filter[]
  readonly onDone: () => void
}) {
  const [name, setName] = useState(filters[0]!.name)
  const filter = filters.find((one) => one.name === name)!
  const [value, setValue] = useState(filter.values?.[0] ?? '')
  const choose = (next: string) => {
    setName(next)
    setValue(filters.find((one) => one.name === next)!.values?.[0] ?? '')
  }
  const add = (event: Event) => {
    event.preventDefault()
    const text = value.trim()
    if (text === '') return
    const values = place.value.query.getAll(name)
    if (!values.includes(text)) setQuery({ [name]: [...values, text] })
    onDone()
  }
  const take = (id: string) => {
    if (id === '') return
    const values = place.value.query.getAll(name)
    if (!values.includes(id)) setQuery({ [name]: [...values, id] })
    onDone()
  }
  const leave = (event: KeyboardEvent) => {
    if (event.key !== 'Escape') return
    event.stopPropagation()
    onDone()
  }
  return html`<form class="new-filter" onSubmit=${add} onKeyDown=${leave}>
    <select
      aria-label="Filter by"
      autofocus
      ref=${(element: HTMLElement | null) => focusOnce(element)}
      onChange=${(event: Event) => choose((event.target as HTMLSelectElement).value)}
    >
      ${filters.map(
        (one) =>
          html`<option key=${one.name} value=${one.name} selected=${one.name === name}>
            ${one.label}
          </option>`,
      )}
    </select>
    ${
      filter.values
        ? html`<select
            aria-label=${filter.label}
            onChange=${(event: Event) => setValue((event.target as HTMLSelectElement).value)}
          >
            ${filter.values.map(
              (one) =>
                html`<option key=${one} value=${one} selected=${one === value}>${one}</option>`,
            )}
          </select>`
        : filter.chooses
          ? html`<${Choose} key=${name} kind=${filter.chooses} label=${filter.label} value=${value} onChoose=${take} />`
          : html`<input
            type="text"
            aria-label=${filter.label}
            placeholder=${filter.placeholder ?? 'value'}
            value=${value}
            onInput=${(event: Event) => setValue((event.target as HTMLInputElement).value)}
          />`
    }
    <${Button} type="submit">Add<//>
    <${Button} kind="quiet" onClick=${onDone}>Cancel<//>
  </form>`
}

const focused = new WeakSet<HTMLElement>()

function focusOnce(element: HTMLElement | null): void {
  if (!element || focused.has(element)) return
  focused.add(element)
  element.focus()
}
