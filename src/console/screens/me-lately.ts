/** The calls of a key at a glance: the last 30 days, and the last refusal. */
import { useMemo } from 'preact/hooks'
import { useAnswer, withQuery } from '../api.ts'
import type { UsageAnswer } from '../answers.ts'
import { count } from '../format.ts'
import { html } from '../html.ts'
import { Spark } from '../parts/bar.ts'
import { Money, Time } from '../parts/facts.ts'
import { Panel } from '../parts/panel.ts'
import { Proof } from '../parts/proof.ts'
import { MEANINGS } from '../text.ts'
import { usageTable } from './usage-rows.ts'
import type { HolderCall } from '../../server/admin/resources/request.ts'

const MONTH_MS = 30 * 86_400_000

/** Nothing where the operator does not show it here. */
export function Lately({ secret }: { readonly secret: string }) {
  const paths = useMemo(() => {
    const from = new Date(Date.now() - MONTH_MS).toISOString()
    return {
      usage: withQuery('/v1/key/usage', { from: from.slice(0, 10), rollup: 'day' }),
      refused: withQuery('/v1/key/requests', { status: '4xx', limit: 1 }),
    }
  }, [])
  const usage = useAnswer<UsageAnswer>(paths.usage, { key: secret }).data
  const refused = useAnswer<{ data: readonly HolderCall[] }>(paths.refused, { key: secret }).data
  if (!usage) return null
  const [last] = refused?.data ?? []
  return html`<${Panel} title="Last 30 days">
    <p class="lately">
      <b><${Money} usd=${usage.totals.cost_usd} exact /></b>
      <span class="muted">${count(usage.totals.calls)} ${usage.totals.calls === 1 ? 'call' : 'calls'}</span>
      <${Spark} values=${usageTable(usage, 'cost_usd').rows[0]?.values ?? []} label="Spend by day, USD" />
    </p>
    <${Proof} ledger=${usage.ledger} />
    ${last && html`<${Refusal} of=${last} />`}
  <//>`
}

function Refusal({ of: { at, status, code } }: { readonly of: HolderCall }) {
  const meaning = MEANINGS[code ?? '']
  return html`<div>
    <p>
      Last refusal: <span class="state warn">${status}</span> ${code?.replaceAll('_', ' ')}, <${Time} at=${at} />
    </p>
    ${
      meaning !== undefined &&
      html`<details>
        <summary>What does that mean?</summary>
        <p class="prose">${meaning}</p>
      </details>`
    }
  </div>`
}
