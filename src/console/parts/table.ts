/** Lists: sticky header, sorting by the server, rows by keyboard, columns to choose, fewer columns on a tablet, two lines a row on a phone. */
import { useRef } from 'preact/hooks'
import { MISSING } from '../format.ts'
import { html, type Content } from '../html.ts'
import { useKeys } from '../keys.ts'
import { go, hrefWith, place, prefer, preferences, setQuery } from '../state.ts'
import { copyText } from './copy.ts'
import { Skeleton } from './states.ts'

/** A column. The first one is the link of its row. */
export interface Column<Row> {
  readonly key: string
  readonly label: string
  readonly cell: (row: Row) => Content
  /** Whether values stand at the end of the column, as numbers do. */
  readonly end?: boolean
  readonly sort?: string
  /** The place on a phone: the figure beside the first column, one of the muted facts below, or nowhere. */
  readonly phone?: 'figure' | 'rest' | 'none'
  /** Whether it is hidden until it is chosen. */
  readonly rare?: boolean
  /** The exact value, for hovering. */
  readonly title?: (row: Row) => string | undefined
}

interface TableProps<Row> {
  /** The name under which the choice of columns is kept. */
  readonly name: string
  readonly caption: string
  readonly columns: readonly Column<Row>[]
  readonly rows: readonly Row[]
  readonly idOf: (row: Row) => string
  readonly hrefOf?: (row: Row) => string | undefined
  /** The row that is open in a sheet: `[` and `]` move on from it. */
  readonly open?: string | undefined
  readonly loading?: boolean
  readonly markOf?: (row: Row) => string | undefined
  readonly totals?: Readonly<Record<string, Content>>
}

export function Table<Row>(props: TableProps<Row>) {
  const { name, caption, rows, idOf, hrefOf, open, loading, markOf, totals } = props
  const body = useRef<HTMLTableSectionElement>(null)
  const hidden = hiddenOf(name, props.columns)
  const columns = props.columns.filter(({ key }) => !hidden.includes(key))
  const onKeyDown = useRowKeys(props, body)
  if (rows.length === 0) return loading ? html`<${Skeleton} lines=${10} />` : null
  return html`<div class="table-frame">
    <table class="rows">
      <caption class="hidden">
        ${caption}
      </caption>
      <thead>
        <tr>
          ${columns.map((column) => html`<${Head} key=${column.key} column=${column} />`)}
        </tr>
      </thead>
      <tbody ref=${body} onKeyDown=${onKeyDown}>
        ${rows.map(
          (row) =>
            html`<tr
              key=${idOf(row)}
              data-id=${idOf(row)}
              class=${markOf?.(row)}
              aria-current=${idOf(row) === open ? 'true' : undefined}
            >
              ${columns.map((column, index) => cellOf(column, row, index === 0 && hrefOf?.(row)))}
            </tr>`,
        )}
      </tbody>
      ${
        totals &&
        html`<tfoot>
          <tr>
            ${columns.map(
              ({ key, end, phone }) =>
                html`<td class=${end ? 'end' : ''} data-phone=${phone}>${totals[key]}</td>`,
            )}
          </tr>
        </tfoot>`
      }
    </table>
  </div>`
}

/** Hidden columns: as chosen, else the rare ones. */
function hiddenOf<Row>(name: string, columns: readonly Column<Row>[]): readonly string[] {
  const rare = columns.filter((column) => column.rare).map(({ key }) => key)
  return preferences.value.hidden[name] ?? rare
}

export function ColumnChoice<Row>({
  name,
  columns,
}: {
  readonly name: string
  readonly columns: readonly Column<Row>[]
}) {
  const hidden = hiddenOf(name, columns)
  const toggle = (key: string) => {
    const next = hidden.includes(key) ? hidden.filter((one) => one !== key) : [...hidden, key]
    prefer({ hidden: { ...preferences.value.hidden, [name]: next } })
  }
  return html`<details class="menu">
    <summary class="button quiet">Columns</summary>
    <div class="menu-list">
      ${columns.slice(1).map(
        ({ key, label }) =>
          html`<label class="check" key=${key}>
              <input
                type="checkbox"
                checked=${!hidden.includes(key)}
                onChange=${() => toggle(key)}
              />${label}
            </label>`,
      )}
    </div>
  </details>`
}

function cellOf<Row>(column: Column<Row>, row: Row, href: string | false | undefined) {
  const { key, label, cell, end, phone, title } = column
  const content = cell(row)
  return html`<td
    key=${key}
    class=${end ? 'end' : ''}
    data-label=${label}
    data-phone=${phone}
    data-missing=${content === MISSING && phone !== 'figure' ? '' : undefined}
    title=${title?.(row)}
  >
    ${href ? html`<a href=${href} class="row-link">${content}</a>` : content}
  </td>`
}

function Head<Row>({ column }: { readonly column: Column<Row> }) {
  const { label, end, sort, phone } = column
  const now = place.value.query.get('sort')
  const direction =
    sort === undefined || !now
      ? undefined
      : now === sort
        ? 'ascending'
        : now === `-${sort}`
          ? 'descending'
          : undefined
  const turn = () =>
    setQuery({ sort: direction === 'descending' ? sort : `-${sort}`, after: undefined })
  return html`<th scope="col" class=${end ? 'end' : ''} data-phone=${phone} aria-sort=${direction}>
    ${
      sort === undefined
        ? label
        : html`<button type="button" class="sort" onClick=${turn}>
            ${label}<span class="arrow" aria-hidden="true"
              >${direction === 'ascending' ? '↑' : direction === 'descending' ? '↓' : '↕'}</span
            >
          </button>`
    }
  </th>`
}

function useRowKeys<Row>(
  { rows, idOf, hrefOf, open }: TableProps<Row>,
  body: { readonly current: HTMLTableSectionElement | null },
): (event: KeyboardEvent) => void {
  const move = (step: 1 | -1) => {
    const links = [...(body.current?.querySelectorAll<HTMLElement>('.row-link') ?? [])]
    const at = links.findIndex((link) => link.closest('tr')!.contains(document.activeElement))
    links[at < 0 ? (step > 0 ? 0 : links.length - 1) : at + step]?.focus()
  }
  const openNext = (step: 1 | -1) => {
    const at = rows.findIndex((row) => idOf(row) === open)
    const next = rows[at + step]
    const href = at >= 0 && next ? hrefOf?.(next) : undefined
    if (href) go(href, { replace: true })
  }
  useKeys({
    j: () => move(1),
    k: () => move(-1),
    '[': () => openNext(-1),
    ']': () => openNext(1),
  })
  // Where no row has the focus, arrows move the page.
  return (event: KeyboardEvent) => {
    const { key, ctrlKey, metaKey, target } = event
    const step = { ArrowDown: 1, ArrowUp: -1 }[key] as 1 | -1 | undefined
    if (step) move(step)
    else if (key === 'c' && !ctrlKey && !metaKey && preferences.value.letters) {
      void copyText((target as HTMLElement).closest('tr')!.dataset.id!)
    } else return
    event.preventDefault()
  }
}

export function hrefOpening(id: string | undefined): string {
  return hrefWith({ open: id })
}
