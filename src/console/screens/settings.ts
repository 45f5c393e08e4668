/** Settings: the configuration, changes by operators, alerts, and the state of the processes. */
import { at } from '../base.ts'
import { useEffect, useMemo, useState } from 'preact/hooks'
import { html, type Content } from '../html.ts'
import { Tabs } from '../parts/tabs.ts'
import { type ScreenProps, allows, go, place, setQuery } from '../state.ts'
import { call, to, useAnswer, usePages, withQuery } from '../api.ts'
import type { Alert, Agreement, Looked } from '../answers.ts'
import { Button } from '../parts/button.ts'
import { Time, Facts } from '../parts/facts.ts'
import { useSubmission, TextField } from '../parts/form.ts'
import { ActiveAlerts, AlertText } from '../parts/alerts.ts'
import { Panel } from '../parts/panel.ts'
import { Differences } from '../parts/proof.ts'
import { Answered, Failure, Empty, Notice, Quiet, Skeleton } from '../parts/states.ts'
import { useKeys } from '../keys.ts'
import { People } from './people.ts'
import { Connections } from './connections.ts'
import { Diff } from '../parts/diff.ts'
import { Filters, isFiltered, type Filter } from '../parts/filters.ts'
import { Range, spanOf } from '../parts/range.ts'
import { Sheet } from '../parts/sheet.ts'
import { hrefOpening, ListEnd, Table, type Column } from '../parts/table.ts'
import type { ChangeAnswer } from '../../server/admin/resources/audit.ts'
import { MISSING, count, bytes, duration, percentOf } from '../format.ts'
import type { SettingAnswer, GatewayAnswer, Status } from '../../server/admin/resources/gateway.ts'
import { Confirm } from '../parts/confirm.ts'
import { Heads } from '../parts/heads.ts'

// Gateways: this process and the others, the ledger and the index of usage, and proving both.

const LICENSES = new URL('../vendor/LICENSES.txt', import.meta.url).href

function Gateways() {
  const answer = useAnswer<{ data: Status }>('/admin/status', { every: EVERY_MS })
  const all = useAnswer<{ data: readonly GatewayAnswer[] }>('/admin/gateways', { every: EVERY_MS })
  return html`<${Answered} of=${answer}>
      ${({ data }: { data: Status }) =>
        html`<div class="halves">
        <${Panel} title="This gateway" more=${html`<a href="/metrics" target="_blank">metrics</a>`}>
          <${Facts} facts=${factsOf(data)} />
        <//>
        <${Usage} />
      </div>`}
    <//>
    <${Panel} title="Gateways of this state">
      <${Answered} of=${all}>${({ data }: { data: readonly GatewayAnswer[] }) => html`<${List} rows=${data} />`}<//>
    <//>
    <p class="caption">
      <a href=${LICENSES} target="_blank">Licenses of the libraries in this page</a>
    </p>`
}

function List({ rows }: { readonly rows: readonly GatewayAnswer[] }) {
  return html`<table class="plain stacked">
    <${Heads} names=${['Gateway', 'Started', 'Ledger', 'Running', 'Behind, rows', 'Log rows lost']} end=${['Running', 'Behind, rows', 'Log rows lost']} />
    <tbody>
      ${rows.map(
        ({ id, own, worker, version, started_at, running, ledger, usage_lag_rows: lag, log }) =>
          html`<tr key=${id}>
            <th scope="row">
              <span class="mono">${id}</span> ${version}${worker === null ? '' : `, worker ${worker}`}${own ? ', this one' : ''}
            </th>
            <td data-label="since"><${Time} at=${started_at} /></td>
            <td class=${ledger.ok ? 'ok' : 'bad'}>${ledger.ok ? '✓ is writing' : '✕ cannot write'}</td>
            <td class="end" data-label="running">${count(running)}</td>
            <td class="end" data-label="behind, rows">${lag === null ? MISSING : count(lag)}</td>
            <td class="end" data-label="log rows lost">${log ? count(Object.values(log.dropped).reduce((sum, rows) => sum + rows, 0)) : MISSING}</td>
          </tr>`,
      )}
    </tbody>
  </table>`
}

function factsOf(status: Status): (readonly [string, Content])[] {
  const { ok, outbox, oldest_ms, why, since } = status.ledger
  return [
    ['Version', status.version],
    ['Node.js', status.node],
    [
      'Started',
      html`<${Time} at=${status.started_at} /> (${duration(status.uptime_seconds * 1000)})`,
    ],
    ['State', status.state],
    [
      'Ledger',
      ok
        ? html`<span class="ok">✓ is writing</span>`
        : html`<span class="bad">✕ cannot write${why && `: ${why}`}</span>${since && html` since <${Time} at=${since} />`}`,
    ],
    [
      'Waiting charges',
      outbox === 0 ? 'none' : `${count(outbox)}, the oldest ${duration(oldest_ms)}`,
    ],
    ['Running', `${count(status.running)} calls`],
    ['Memory', bytes(status.memory_bytes)],
  ]
}

/** The index of usage: proving it, and making it again. */
function Usage() {
  const [proof, setProof] = useState<Agreement & { readonly indexed: number }>()
  const [asking, setAsking] = useState(false)
  const [begun, setBegun] = useState(false)
  const verify = useSubmission(async () => {
    const { data } = await call<{ data: Agreement & { readonly indexed: number } }>(
      'GET',
      '/admin/usage/verify',
    )
    setProof(data)
  })
  const rebuild = async () => {
    await call('POST', '/admin/usage/rebuild', { body: {} })
    setAsking(false)
    setBegun(true)
    setProof(undefined)
  }
  return html`<${Panel} title="Usage and the ledger">
    <p class="prose">
      Usage is an index of the ledger's entries. Verifying adds all of it up again and compares it
      with what the ledger says of every key and account.
    </p>
    ${proof && html`<${Result} proof=${proof} />`}
    ${begun && html`<${Notice}>Usage is being read again. Pages say how far it is.<//>`}
    ${verify.error && html`<${Failure} error=${verify.error} />`}
    <div class="actions">
      <${Button} right="read" busy=${verify.busy} onClick=${() => verify.submit()}>Verify<//>
      <${Button} kind="danger" right="config" onClick=${() => setAsking(true)}>Rebuild usage<//>
    </div>
    ${
      asking &&
      allows('config') &&
      html`<${Confirm}
        title="Read all usage again?"
        verb="Rebuild usage"
        act=${rebuild}
        onClose=${() => setAsking(false)}
      >
        <p>
          The tables of usage are emptied and made again from the ledger. Money is not touched.
          Until that is done, pages of usage are not complete and say so. Days whose entries were
          folded lose their detail.
        </p>
      <//>`
    }
  <//>`
}

function Result({ proof }: { readonly proof: Agreement & { readonly indexed: number } }) {
  const { agrees, as_of, differences, indexed } = proof
  if (agrees === true) {
    return html`<p class="ok">✓ Every sum equals the ledger (<${Time} at=${as_of} />).</p>`
  }
  if (agrees === null) return html`<p>○ Usage is being read: ${percentOf(indexed)}.</p>`
  return html`<div>
    <p class="bad">✕ ${count(differences.length)} sums differ (<${Time} at=${as_of} />):</p>
    <${Differences} of=${differences} />
  </div>`
}

// The effective configuration: each value, and where it comes from. Secrets are shown only as set.

/** Rows of one section: price lists have thousands, and a search finds them. */
const MOST_ROWS = 500

function Configuration() {
  const answer = useAnswer<{ data: readonly SettingAnswer[] }>(
    allows('config') ? '/admin/config' : null,
  )
  const manual = useManual('configuration')
  const meaningOf = useMemo(() => meaningsIn(manual ?? ''), [manual])
  const text = place.value.query.get('q') ?? ''
  if (!allows('config')) {
    return html`<${Notice}>The configuration is shown to the role admin.<//>`
  }
  return html`<div class="stack">
    <p class="muted prose">
      Read only. A setting is changed where the last column says: in that file, in that variable, or on
      the command line. One with its default is written into the configuration file.
    </p>
    <div class="settings-search">
      <${TextField}
        label="Search"
        value=${text}
        onInput=${(q: string) => setQuery({ q: q || undefined }, { replace: true })}
        placeholder="part of a path, a meaning, a value or an origin"
      />
    </div>
    <${Answered} of=${answer} lines=${10}>
      ${({ data }: { data: readonly SettingAnswer[] }) =>
        manual === undefined
          ? html`<${Skeleton} lines=${10} />`
          : html`<${Sections} settings=${data} text=${text} meaningOf=${meaningOf} />`}
    <//>
  </div>`
}

function Sections({
  settings,
  text,
  meaningOf,
}: {
  readonly settings: readonly SettingAnswer[]
  readonly text: string
  readonly meaningOf: MeaningOf
}) {
  const wanted = text.trim().toLowerCase()
  const rows = useMemo(
    () =>
      settings.map((setting) => {
        const meaning = meaningOf(setting.path)
        const { path, value, origin } = setting
        const words = [path, written(value), originOf(origin), meaning?.text ?? '']
        return { ...setting, meaning, words: words.join(' ').toLowerCase() }
      }),
    [settings, meaningOf],
  )
  const shown = rows
    .filter(({ words }) => words.includes(wanted))
    .toSorted((one, next) => distance(one.path, wanted) - distance(next.path, wanted))
  if (shown.length === 0) {
    return html`<${Empty} title="No setting matches."><p class="muted">Search for less.</p><//>`
  }
  const sections = [...Map.groupBy(shown, ({ path }) => path.split('.')[0]!)]
  return sections.map(
    ([name, ofSection]) =>
      html`<${Section}
        key=${name}
        name=${name}
        settings=${ofSection}
        open=${wanted !== '' || ofSection.length <= 40}
      />`,
  )
}

/** How far the name of a setting is from what is looked for: it is that name, ends with it, has it, or only its other words have it. */
function distance(path: string, wanted: string): number {
  const name = path.toLowerCase()
  if (name === wanted) return 0
  return name.endsWith(`.${wanted}`) ? 1 : name.includes(wanted) ? 2 : 3
}

/** A section, whose rows are made when it is opened. */
function Section({
  name,
  settings,
  open,
}: {
  readonly name: string
  readonly settings: readonly (SettingAnswer & { readonly meaning: Meaning | undefined })[]
  readonly open: boolean
}) {
  const [chosen, setChosen] = useState<boolean>()
  const isOpen = chosen ?? open
  const more = settings.length - MOST_ROWS
  return html`<details
    class="panel section"
    open=${isOpen}
    onToggle=${(event: Event) => setChosen((event.target as HTMLDetailsElement).open)}
  >
    <summary><h2>${name}</h2><span class="muted">${count(settings.length)}</span></summary>
    ${
      isOpen &&
      html`<table class="settings">
          <thead class="hidden">
            <tr>
              <th scope="col">Setting</th>
              <th scope="col">Value</th>
              <th scope="col">From</th>
            </tr>
          </thead>
          <tbody>
            ${settings.slice(0, MOST_ROWS).map(
              ({ path, value, secret, origin, meaning }) =>
                html`<tr key=${path}>
                  <th scope="row">
                    <span class="mono">${path}</span>
                    ${meaning && html`<p class="caption">${meaning.text}</p>`}
                  </th>
                  <td class="mono" title=${secret ? undefined : written(value)}>
                    ${secret ? html`<span class="muted">${String(value)}</span>` : withUnit(value, meaning)}
                  </td>
                  <td class=${origin.from === 'default' ? 'muted' : ''}>
                    ${originOf(origin)}
                    ${meaning && origin.from !== 'default' && html`<p class="caption">default: ${meaning.usual}</p>`}
                  </td>
                </tr>`,
            )}
          </tbody>
        </table>
        ${more > 0 && html`<p class="caption">${count(more)} more; search for them.</p>`}`
    }
  </details>`
}

function originOf({ from, file, name }: SettingAnswer['origin']): string {
  return name ?? file ?? from
}

/** What the manual says of a setting. */
interface Meaning {
  readonly text: string
  /** The type, which begins with `seconds` or `size` where a number has such a unit. */
  readonly type: string
  /** The default. */
  readonly usual: string
}

type MeaningOf = (path: string) => Meaning | undefined

/** The Markdown of a page of the manual; undefined until it is there, and empty where it is not. */
function useManual(page: string): string | undefined {
  const [text, setText] = useState<string>()
  useEffect(() => {
    const read = async () => {
      const answer = await fetch(at(to.manual(page)))
      return answer.ok ? answer.text() : ''
    }
    read().then(setText, () => setText(''))
  }, [page])
  return text
}

/** Reads the tables of the page of the manual about the configuration. */
function meaningsIn(manual: string): MeaningOf {
  const entries: (readonly [head: string, pattern: RegExp, meaning: Meaning])[] = []
  let parents: readonly string[] = []
  for (const line of manual.split('\n')) {
    const [names = '', type = '', usual = '', text = ''] = plain(line).split(' | ')
    if (!line.startsWith('|')) parents = []
    else if (usual === 'default') parents = names === 'top level' ? [''] : names.split(', ')
    else
      for (const path of parents.flatMap((one) =>
        names.split(', ').map((name) => below(one, name)),
      ))
        entries.push([path.split('.')[0]!, patternOf(path), { text, type, usual }])
  }
  const bySection = Map.groupBy(entries, ([head]) => head)
  return (name) => {
    const path = name.replace(/^.*\.(?=egress\.)/, '')
    return bySection.get(path.split('.')[0]!)?.find(([, pattern]) => pattern.test(path))?.[2]
  }
}

/** A line of a table without the marks at its ends, those of code, and the addresses of its links. */
function plain(line: string): string {
  const row = line.replace(/^\| /, '').replace(/ \|$/, '')
  return row.replaceAll('`', '').replaceAll(/\[([^\]]*)\]\([^)]*\)/g, '$1')
}

function below(parent: string, name: string): string {
  return parent === '' ? name : `${parent}.${name}`
}

/** Matches a setting, and the entries of one that is a list. */
function patternOf(path: string): RegExp {
  const text = path
    .replaceAll(/[.*+?^${}()|\\]/g, String.raw`\$&`)
    .replaceAll('[]', String.raw`\.\d+`)
    .replaceAll(/<[^>]*>/g, '.+')
  return new RegExp(String.raw`^${text}(?:\.\d+)?$`)
}

function withUnit(value: unknown, meaning: Meaning | undefined): string {
  if (typeof value !== 'number' || !meaning) return written(value)
  if (meaning.type.startsWith('size') && value >= MIB) return bytes(value)
  return meaning.type.startsWith('seconds') ? `${written(value)} s` : written(value)
}

const MIB = 1_048_576

function written(value: unknown): string {
  if (value === null || value === undefined) return MISSING
  if (value === '') return 'none'
  return typeof value === 'string' ? value : JSON.stringify(value)
}

// The audit log: who changed what, from where, and the differences.

const STANDARD = '-30d'
const FILTERS: readonly Filter[] = [
  { name: 'actor', label: 'actor', placeholder: 'name of a token' },
  { name: 'action', label: 'action', placeholder: 'key.update' },
  { name: 'object', label: 'object', placeholder: 'key:key_…' },
]

const COLUMNS: readonly Column<ChangeAnswer>[] = [
  { key: 'at', label: 'Time', cell: ({ at }) => html`<${Time} at=${at} />` },
  { key: 'actor', label: 'Who', cell: ({ actor }) => actor, phone: 'figure' },
  { key: 'action', label: 'Action', cell: ({ action }) => action, phone: 'rest' },
  {
    key: 'object',
    label: 'Object',
    cell: ({ object }) => html`<span class="mono">${object}</span>`,
    title: ({ object }) => object,
    phone: 'rest',
    long: true,
  },
  {
    key: 'members',
    label: 'Members',
    cell: ({ changes }) => changes.map(({ member }) => member).join(', '),
    phone: 'rest',
    long: true,
  },
  { key: 'address', label: 'From', cell: ({ address }) => address ?? MISSING, phone: 'none' },
]

function AuditLog() {
  const { query } = place.value
  const parameters = [...query].filter(([name]) => name !== 'open').join('&')
  const path = useMemo(() => pathOf(query, Date.now()), [parameters])
  const list = usePages<ChangeAnswer>(allows('people') ? path : null)
  const open = query.get('open') ?? undefined
  const row = list.rows.find(({ id }) => id === open)
  const csv = `${path}${path.includes('?') ? '&' : '?'}format=csv`
  useKeys({ x: () => allows('people') && location.assign(at(csv)) })
  if (!allows('people')) return html`<${Notice}>The audit log is shown to the role admin.<//>`
  const isEmpty = !list.loading && !list.error && list.rows.length === 0
  return html`<div class="stack">
    <div class="screen-head"><${Range} standard=${STANDARD} /><${Filters} filters=${FILTERS} /><div class="screen-actions"><a class="button quiet" href=${csv} download>CSV</a></div></div>
    ${list.error && html`<${Failure} error=${list.error} onRetry=${list.reload} keptAt=${list.at} />`}
    ${
      isEmpty
        ? html`<${Empty}
            title=${isFiltered(FILTERS) ? 'No changes match.' : 'No changes in this range.'}
          >
            <p class="muted">Changes of accounts, keys and money, and sign-ins, are listed here.</p>
          <//>`
        : html`<${Table}
            name="audit"
            caption="Changes, newest first"
            columns=${COLUMNS}
            rows=${list.rows}
            idOf=${({ id }: ChangeAnswer) => id}
            hrefOf=${({ id }: ChangeAnswer) => hrefOpening(id)}
            open=${open}
            loading=${list.loading}
          />`
    }
    <${ListEnd} list=${list} verb="Older" />
    ${
      row &&
      html`<${Sheet}
        title=${row.action}
        onClose=${() => setQuery({ open: undefined }, { replace: true })}
      >
        <div class="stack">
          <${Facts}
            facts=${[
              ['Time', html`<${Time} at=${row.at} />`],
              ['Who', row.actor],
              ['From', row.address ?? MISSING],
              ['Object', html`<code>${row.object}</code>`],
            ]}
          />
          <${Diff}
            changes=${row.changes.map(({ member, before, after }) => ({
              member,
              from: before,
              to: after,
            }))}
          />
        </div>
      <//>`
    }
  </div>`
}

function pathOf(query: URLSearchParams, now: number): string {
  const { from, to } = spanOf(query, STANDARD, now)
  const parameters = new URLSearchParams()
  for (const { name } of FILTERS) {
    const value = query.get(name)
    if (value !== null) parameters.set(name, value)
  }
  if (from) parameters.set('from', from)
  if (to) parameters.set('to', to)
  return withQuery('/admin/audit', parameters)
}

// Alerts: active ones, ended ones, and muting one.

const EVERY_MS = 10_000

interface AlertList {
  readonly data: readonly Alert[]
  readonly looked: Looked
}

function Alerts() {
  const answer = useAnswer<AlertList>('/admin/alerts', { every: EVERY_MS })
  return html`<${Answered} of=${answer}>
    ${({ data, looked }: AlertList) => {
      const active = data.filter(({ ended_at }) => !ended_at)
      const ended = data.filter(({ ended_at }) => ended_at)
      return html`<div class="stack">
        <${Panel} title="Active">
          ${
            active.length === 0
              ? html`<${Quiet} looked=${looked} text="No alert is active." />`
              : html`<${ActiveAlerts} alerts=${active} />`
          }
        <//>
        <${Panel} title="Ended">
          ${
            ended.length === 0
              ? html`<p class="muted">None yet.</p>`
              : html`<ul class="lines">
                  ${ended.map(
                    ({ since, ended_at, ...alert }) =>
                      html`<li key=${`${alert.id} ${since}`}>
                        <span><${AlertText} alert=${alert} /></span>
                        <span class="muted"><${Time} at=${since} /> … <${Time} at=${ended_at} /></span>
                      </li>`,
                  )}
                </ul>`
          }
        <//>
      </div>`
    }}
  <//>`
}

const TABS = {
  configuration: { label: 'Configuration', part: Configuration },
  connections: { label: 'Connections', part: Connections },
  people: { label: 'People', part: People },
  audit: { label: 'Audit', part: AuditLog },
  alerts: { label: 'Alerts', part: Alerts },
  gateways: { label: 'Gateways', part: Gateways },
}

export function Settings({ params }: ScreenProps) {
  useEffect(() => {
    // The address of vendors of before.
    if (params.tab === 'set-up') go(to.vendor(), { replace: true })
  }, [params.tab])
  const current = Object.hasOwn(TABS, params.tab ?? '') ? params.tab! : 'configuration'
  const { part } = TABS[current as keyof typeof TABS]
  return html`<div class="screen">
    <header class="screen-head"><h1>Settings</h1></header>
    <${Tabs}
      label="Parts of the settings"
      tabs=${Object.entries(TABS).map(([key, { label }]) => ({
        key,
        label,
        href: `/console/settings/${key}`,
      }))}
      current=${current}
    />
    <${part} />
  </div>`
}
