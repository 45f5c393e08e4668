/** What needs an operator, by harm: the cause in the words of the vendor or the network, its calls, and the act that mends it. */
import { useState } from 'preact/hooks'
import { hrefOfObject, to } from '../api.ts'
import { coolDown, perform, testOf, type Act } from '../acts.ts'
import type { Overview } from '../answers.ts'
import { count } from '../format.ts'
import { html } from '../html.ts'
import { useKeys } from '../keys.ts'
import { Button } from '../parts/button.ts'
import { Money, Time } from '../parts/facts.ts'
import { Meaning } from '../parts/alerts.ts'
import { Panel } from '../parts/panel.ts'
import { ALERTS, failureText } from '../text.ts'
import { GiveKey, Where } from './vendor-key.ts'

type Incident = Overview['incidents'][number]
type Part = Incident['parts'][number]

const HARMS = [
  { harm: 'errors', title: 'Clients get errors', mark: '✕', tone: 'bad' },
  { harm: 'degraded', title: 'Degraded', mark: '▲', tone: 'warn' },
  { harm: 'soon', title: 'Soon', mark: '○', tone: 'muted' },
] as const
const MOST_LINES = 20

export function Incidents({
  overview,
  onChange,
}: {
  readonly overview: Overview
  readonly onChange: () => void
}) {
  const { incidents, incidents_total: total, looked, as_of } = overview
  const [all, setAll] = useState(false)
  const shown = all ? incidents : incidents.slice(0, MOST_LINES)
  useLines()
  const seen = html`<span class="muted">${looked.complete ? html`${count(looked.of)} ${looked.of === 1 ? 'account or key' : 'accounts and keys'} looked at` : html`Still looking: ${count(looked.done)} of ${count(looked.of)} accounts and keys so far`}, <${Time} at=${as_of} /></span>`
  return html`<${Panel} title="Needs you" more=${seen}>
    ${
      total === 0
        ? html`<p>${looked.complete ? html`<span class="ok" aria-hidden="true">✓ </span>Nothing needs attention.` : html`<span class="muted">Nothing so far.</span>`}</p>`
        : HARMS.map(({ harm, title, mark, tone }) => {
            const own = shown.filter((one) => one.harm === harm)
            if (own.length === 0) return null
            return html`<section key=${harm} class="incidents">
              <h3 class=${tone}><span aria-hidden="true">${mark} </span>${title}</h3>
              <ul>
                ${own.map((one) => html`<${Line} key=${one.id} of=${one} onChange=${onChange} />`)}
              </ul>
            </section>`
          })
    }
    ${total > shown.length && html`<p>${all ? html`<span class="muted">${count(total - shown.length)} more</span>` : html`<${Button} kind="quiet" onClick=${() => setAll(true)}>${count(total - shown.length)} more<//>`}</p>`}
  <//>`
}

/** `j` and `k` move through the acts of the lines; Enter does the one with the focus. */
function useLines(): void {
  const move = (by: number) => () => {
    const acts = [...document.querySelectorAll<HTMLElement>('.incident > .act')]
    const at = acts.indexOf(document.activeElement as HTMLElement)
    acts[at < 0 ? 0 : Math.min(acts.length - 1, Math.max(0, at + by))]?.focus()
  }
  useKeys({ j: move(1), k: move(-1) })
}

function Line({ of, onChange }: { readonly of: Incident; readonly onChange: () => void }) {
  const { object, cause, since, calls, parts } = of
  const href = hrefOfObject(object)
  const many =
    calls &&
    html`<a data-figure=${calls.value} href=${to.requests(calls.where)}>${callsIn(calls)}</a>`
  const several = parts.length > 1
  return html`<li class="incident">
    <span class="what">${href ? html`<a href=${href}><bdi>${object.name}</bdi></a>` : html`<bdi>${object.name}</bdi>`}</span>
    <span class="cause">
      ${object.usd === undefined ? null : html`balance <b><${Money} usd=${object.usd} exact balance /></b>: `}${cause ?? ALERTS[of.kind]}
      <span class="muted"> ${many}${many && ' '}${of.kind !== 'key.expiring' && html`since <${Time} at=${since} />`}</span>
      <${Meaning} page=${`${of.page}#${of.kind}`} />
    </span>
    ${!several && html`<${Mend} of=${of} part=${parts[0]} onChange=${onChange} />`}
    ${
      several &&
      html`<ul class="parts">
        ${parts.map(
          (part) =>
            html`<li key=${part.deployment} class="incident">
              <span class="what mono"><a href=${to.model(object.id)}>${part.deployment}</a></span>
              <span class="cause">${part.cause ?? failureText(part.class ?? '')}<span class="muted"> ${count(part.calls)} ${part.calls === 1 ? 'call' : 'calls'}</span></span>
              <${Mend} of=${of} part=${part} onChange=${onChange} />
            </li>`,
        )}
      </ul>`
    }
  </li>`
}

function callsIn({ value, of }: NonNullable<Incident['calls']>): string {
  const calls = (of ?? value) === 1 ? 'call' : 'calls'
  return of === undefined ? `${count(value)} ${calls}` : `${count(value)} of ${count(of)} ${calls}`
}

/** The act of a line, or of one of its deployments. */
function Mend({
  of: { object, act: whole },
  part,
  onChange,
}: {
  readonly of: Incident
  readonly part: Part | undefined
  readonly onChange: () => void
}) {
  const [open, setOpen] = useState(false)
  const [busy, setBusy] = useState(false)
  const act = part?.act ?? whole
  const provider = part?.deployment.split('/', 1)[0] ?? ''
  if (act === 'new_key' || act === 'show_where') {
    const close = () => setOpen(false)
    return html`<button type="button" class="button act" onClick=${() => setOpen(true)}>
        ${act === 'new_key' ? 'Give a new key' : 'Show where'}
      </button>
      ${open && act === 'new_key' && html`<${GiveKey} provider=${provider} test=${testOf(object.id, part!.deployment)} onClose=${close} onDone=${onChange} />`}
      ${open && act === 'show_where' && html`<${Where} name=${provider} path=${`providers.${provider}.`} onClose=${close} />`}`
  }
  const { verb, href, act: run } = mendingOf(act, object, part)
  if (href !== undefined) return html`<a class="button act" href=${href}>${verb}</a>`
  const press = async () => {
    setBusy(true)
    await perform({ verb, right: 'keys', act: run! })
    setBusy(false)
    onChange()
  }
  return html`<button type="button" class="button act" aria-disabled=${busy ? 'true' : undefined} onClick=${() => busy || void press()}>${verb}</button>`
}

function mendingOf(act: Incident['act'], object: Incident['object'], part: Part | undefined): Act {
  const { kind, id, account } = object
  const link = (verb: string, href: string): Act => ({ verb, right: 'read', href })
  if (act === 'test') return testOf(id, part?.deployment)
  if (act === 'cool_down') return coolDown(part!.deployment)
  if (act === 'model') return link('Open the model', to.model(id))
  if (act === 'top_up') return link('Top up', to.account(id, 'overview', { act: 'credits' }))
  if (act === 'extend') return link('Extend', to.key(id, 'overview', { act: 'edit' }))
  if (act === 'raise') {
    if (kind === 'key') return link('Raise until…', to.key(id))
    return link(
      'Raise until…',
      kind === 'account' ? to.account(id) : to.account(account ?? '', 'teams'),
    )
  }
  if (act === 'account') return link('Open the account', to.account(id))
  if (act === 'payment') return link('Book it…', to.payment(id))
  if (act === 'entry') return link('Open the entry', to.vendor())
  if (act === 'guard') return link('Look', '/console/guard')
  return link('Look', to.settings(act === 'alerts' ? 'alerts' : 'gateways'))
}
