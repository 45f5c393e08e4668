/** The outcome of a call, and ending one that runs: for every screen that lists calls. */
import { useState } from 'preact/hooks'
import { call } from '../api.ts'
import type { ShownCall } from '../answers.ts'
import { count, duration, MISSING, shortCount } from '../format.ts'
import { html, type Content } from '../html.ts'
import { Button } from '../parts/button.ts'
import { Confirm } from '../parts/confirm.ts'
import { Time } from '../parts/facts.ts'
import { amounts, type Column } from '../parts/table.ts'

const CODES: Readonly<Record<string, string>> = {
  rate_limited: 'rate',
  too_many_concurrent: 'concurrency',
  insufficient_credits: 'balance',
  key_limit_exceeded: 'spend cap',
  policy_violation: 'policy',
  model_not_found: 'model',
  model_not_allowed: 'not allowed',
  invalid_api_key: 'key',
}

/** Members that columns of calls read: operators know more of them than holders of keys. */
type CallInColumns = Pick<ShownCall, 'at' | 'model' | 'usage' | 'cost_usd'> & {
  readonly estimated?: boolean | null
  readonly times: Pick<ShownCall['times'], 'total_ms'>
}

const column = (
  key: string,
  label: string,
  cell: (row: CallInColumns) => Content,
  more: Partial<Column<CallInColumns>> = { end: true, phone: 'rest' },
): Column<CallInColumns> => ({ key, label, cell, ...more })

export const CALL_COLUMNS = {
  at: column('at', 'Time', ({ at }) => html`<${Time} at=${at} />`, {}),
  model: column('model', 'Model', ({ model }) => model ?? MISSING, {
    title: ({ model }) => model ?? undefined,
    phone: 'rest',
    long: true,
  }),
  tokens: column('tokens', 'Tokens', tokensOf, { title: exactTokens, end: true, phone: 'rest' }),
  total: column('total', 'Total', ({ times }) => duration(times.total_ms)),
  cost: amounts<CallInColumns>(({ cost_usd }) => cost_usd, {
    key: 'cost',
    label: 'Cost',
    estimated: ({ estimated }) => estimated === true,
    phone: 'rest',
  }),
} as const
/** The column of {@link Status}. */
export const STATUS_COLUMN: Column<ShownCall> = {
  key: 'status',
  label: 'Status',
  cell: (row) => html`<${Status} row=${row} />`,
  phone: 'figure',
}

function tokensOf({ usage }: CallInColumns): string {
  const counts = [usage.prompt_tokens, usage.completion_tokens].filter((one) => one !== null)
  return counts.map(shortCount).join('+') || MISSING
}

function exactTokens({ usage }: CallInColumns): string {
  return `prompt ${count(usage.prompt_tokens)}, completion ${count(usage.completion_tokens)}`
}

export function Status({ row }: { readonly row: ShownCall }) {
  const { status, code, end, running } = row
  if (running) return html`<span class="state">running</span>`
  const word =
    code === null ? (end === 'completed' ? '' : end) : (CODES[code] ?? code.replaceAll('_', ' '))
  const tone =
    status === null || status >= 500
      ? 'bad'
      : status >= 400
        ? 'warn'
        : end === 'blocked'
          ? 'warn'
          : ''
  return html`<span class="outcome" title=${row.error ?? ''}
    ><span class=${`state ${tone}`}>${status || MISSING}</span>${' '}${word}</span
  >`
}

export function EndCall({ id }: { readonly id: string }) {
  const [asking, setAsking] = useState(false)
  const end = async () => {
    await call('POST', `/admin/requests/${id}/end`)
    setAsking(false)
  }
  return html`<${Button} right="keys" onClick=${() => setAsking(true)}>End<//> ${
    asking &&
    html`<${Confirm}
        title="End this call?"
        verb="End call"
        act=${end}
        onClose=${() => setAsking(false)}
      >
        <p>
          The client gets the error <code>service_unavailable</code>. What was produced until then
          is charged, as if the client had left.
        </p>
      <//>`
  }`
}
