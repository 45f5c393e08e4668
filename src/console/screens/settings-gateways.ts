/** Gateways: this process and the others, the ledger and the index of usage, and proving both. */
import { useState } from 'preact/hooks'
import { call, useAnswer } from '../api.ts'
import type { Agreement } from '../answers.ts'
import { bytes, count, duration, exactMoney, percentOf } from '../format.ts'
import { html, type Content } from '../html.ts'
import { Button } from '../parts/button.ts'
import { Confirm } from '../parts/confirm.ts'
import { Facts, Time } from '../parts/facts.ts'
import { useSubmission } from '../parts/form.ts'
import { Heads } from '../parts/heads.ts'
import { Panel } from '../parts/panel.ts'
import { Answered, Failure, Notice } from '../parts/states.ts'
import { allows } from '../state.ts'
import type { GatewayAnswer, Status } from '../../server/admin/resources/gateway.ts'

const EVERY_MS = 10_000
const LICENSES = new URL('../vendor/LICENSES.txt', import.meta.url).href

export function Gateways() {
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
    <${Heads} names=${['Gateway', 'Started', 'Ledger', 'Running', 'Lag', 'Log rows lost']} end=${['Running', 'Lag', 'Log rows lost']} />
    <tbody>
      ${rows.map(
        ({ id, own, worker, version, started_at, running, ledger, usage_lag_rows: lag, log }) =>
          html`<tr key=${id}>
            <th scope="row">
              <span class="mono">${id}</span> ${version}${worker === null ? '' : `, worker ${worker}`}${own ? ', this one' : ''}
            </th>
            <td data-label="since"><${Time} at=${started_at} /></td>
            <td class=${ledger.ok ? 'ok' : 'bad'}>${ledger.ok ? '✓ books' : '✕ cannot book'}</td>
            <td class="end" data-label="running">${count(running)}</td>
            <td class="end" data-label="lag">${lag === null ? '–' : count(lag)}</td>
            <td class="end" data-label="log rows lost">${log ? count(Object.values(log.dropped).reduce((sum, rows) => sum + rows, 0)) : '–'}</td>
          </tr>`,
      )}
    </tbody>
  </table>`
}

function factsOf(status: Status): (readonly [string, Content])[] {
  const { ok, outbox, oldest_ms } = status.ledger
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
      ok ? html`<span class="ok">✓ books</span>` : html`<span class="bad">✕ cannot book</span>`,
    ],
    ['Outbox', outbox === 0 ? '0' : `${count(outbox)}, the oldest ${duration(oldest_ms)}`],
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
      <${Button} role="admin" busy=${verify.busy} onClick=${() => verify.submit()}>Verify<//>
      <${Button} kind="danger" role="admin" onClick=${() => setAsking(true)}>Rebuild usage<//>
    </div>
    ${
      asking &&
      allows('admin') &&
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
    <ul>
      ${differences.map(
        ({ account_id, key_id, indexed_usd, ledger_usd }) =>
          html`<li key=${`${account_id}/${key_id}`}>
            <code>${account_id}${key_id === null ? ', balance' : `/${key_id}`}</code>:
            ${' '}${exactMoney(indexed_usd)} here, ${exactMoney(ledger_usd)} in the ledger
          </li>`,
      )}
    </ul>
  </div>`
}
