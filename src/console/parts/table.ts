/** Lists: sticky header, sorting by the server, rows by keyboard, columns to choose, fewer columns on a tablet, two lines a row on a phone. */
import { useRef, useState } from 'preact/hooks'
import { copies, type Act } from '../acts.ts'
import type { Pages } from '../api.ts'
import { count, listDecimals, MISSING, wholeDecimals } from '../format.ts'
import { html, type Content } from '../html.ts'
import { useKeys } from '../keys.ts'
import { go, hrefWith, place, prefer, preferences, setQuery } from '../state.ts'
import { Button } from './button.ts'
import { copyText } from './copy.ts'
import { Money, Time } from './facts.ts'
import { RowMenu } from './menu.ts'
import { Skeleton } from './states.ts'

/** A column. The first one is the link of its row. */
export interface Column<Row> {
  readonly key: string
  readonly label: string
  readonly cell: (row: Row, decimals: number) => Content
  /** The amount of a row, in a column of money: all of them have the same decimals. */
  readonly usd?: (row: Row) => string | null | undefined
  /** Whether values stand at the end of the column, as numbers do. */
  readonly end?: boolean
  readonly sort?: string
  /** The place on a phone: the figure beside the first column, one of the muted facts below, or nowhere. */
  readonly phone?: 'figure' | 'rest' | 'none'
  /** Whether it is hidden until it is chosen. */
  readonly rare?: boolean
  /** Whether its texts may be long, such as names: the column gets narrower where the table has no place for it. */
  readonly long?: boolean
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
  /** Whether all rows are on the page, so that amounts have all decimals, and add up. */
  readonly whole?: boolean
  /** What can be done with a row, in its menu; and what the row is called there. */
  readonly actsOf?: (row: Row) => readonly Act[]
  readonly nameOf?: (row: Row) => string
}

/** A column of money. @param none what stands where a row has no amount */
export function amounts<Row>(
  usd: (row: Row) => string | null | undefined,
  {
    none = MISSING,
    balance = false,
    estimated = () => false,
    ...column
  }: Pick<Column<Row>, 'key' | 'label' | 'sort' | 'phone'> & {
    readonly none?: string
    readonly balance?: boolean
    readonly estimated?: (row: Row) => boolean
  },
): Column<Row> {
  const cell = (row: Row, decimals: number) =>
    (usd(row) ?? null) === null
      ? none
      : html`<${Money} usd=${usd(row)} decimals=${decimals} balance=${balance} estimated=${estimated(row)} />`
  return { ...column, usd, cell, end: true }
}

export function Table<Row>(props: TableProps<Row>) {
  const { name, caption, rows, idOf, hrefOf, open, loading, markOf, totals, actsOf, nameOf } = props
  const body = useRef<HTMLTableSectionElement>(null)
  const hidden = hiddenOf(name, props.columns)
  const columns = props.columns.filter(({ key }) => !hidden.includes(key))
  const onKeyDown = useRowKeys(props, body)
  const decimalsOf = props.whole ? wholeDecimals : listDecimals
  const decimals = new Map(
    columns.map(({ key, usd }) => [key, usd ? decimalsOf(rows.map(usd)) : 0]),
  )
  const [menu, setMenu] = useState<string>()
  useKeys(actsOf ? { '.': () => setMenu(focusedRow(body.current)) } : {})
  if (rows.length === 0) return loading ? html`<${Skeleton} lines=${10} />` : null
  return html`<div class="table-frame">
    <table class="rows">
      <caption class="hidden">
        ${caption}
      </caption>
      <thead>
        <tr>
          ${columns.map((column) => html`<${Head} key=${column.key} column=${column} />`)}
          ${actsOf && html`<th scope="col" class="acts"><span class="hidden">Acts</span></th>`}
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
              ${columns.map((column, index) => cellOf(column, row, decimals.get(column.key)!, index === 0 && hrefOf?.(row)))}
              ${
                actsOf &&
                html`<td class="acts">
                  <${RowMenu}
                    name=${nameOf?.(row) ?? idOf(row)}
                    acts=${() => [...actsOf(row), ...copies(idOf(row), hrefOf?.(row))]}
                    open=${menu === idOf(row)}
                    onToggle=${(isOpen: boolean) => setMenu(isOpen ? idOf(row) : undefined)}
                  />
                </td>`
              }
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
            ${actsOf && html`<td class="acts"></td>`}
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

/** How many there are, how far a search came, and a button for the rest of the list. @param noun the noun, such as `key` */
export function ListEnd({
  list: { next, total, searchedTo, loadingMore, more },
  noun,
  verb = 'More',
}: {
  readonly list: Pages<unknown>
  readonly noun?: string
  readonly verb?: string
}) {
  if (next === null && !total) return null
  return html`<p class="more">
    ${total ? html`<span class="muted">${count(total)} ${noun}${total === 1 ? '' : 's'}</span>` : null}
    ${next !== null && searchedTo ? html`<span class="muted">searched back to <${Time} at=${searchedTo} /></span>` : null}
    ${next !== null && html`<${Button} busy=${loadingMore} onClick=${more}>${searchedTo ? 'Keep looking' : verb}<//>`}
  </p>`
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

function focusedRow(body: HTMLElement | null): string | undefined {
  const row = document.activeElement?.closest('tr')
  return row && body?.contains(row) ? row.dataset.id : undefined
}

/** Words of cells that say nothing without the name of their column. */
const WORDS = ['none', 'never', 'nothing', 'all']

function cellOf<Row>(
  column: Column<Row>,
  row: Row,
  decimals: number,
  href: string | false | undefined,
) {
  const { key, label, cell, end, phone, title, long } = column
  const content = cell(row, decimals)
  const inside = href ? html`<a href=${href} class="row-link">${content}</a>` : content
  return html`<td
    key=${key}
    class=${end ? 'end' : ''}
    data-label=${label}
    data-phone=${phone}
    data-missing=${content === MISSING && phone !== 'figure' ? '' : undefined}
    data-named=${phone === 'rest' && WORDS.includes(content as string) ? '' : undefined}
    title=${title?.(row)}
  >
    ${long && content !== MISSING ? html`<div class="long"><div>${inside}</div></div>` : inside}
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
    // A row without a link has its act.
    const links = [...(body.current?.rows ?? [])].flatMap(
      (row) => row.querySelector<HTMLElement>('.row-link, td a, td button') ?? [],
    )
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
