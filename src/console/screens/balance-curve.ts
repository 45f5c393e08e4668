/** The balance of an account over 30 days, with its bookings. */
import { useMemo } from 'preact/hooks'
import { useAnswer, withQuery } from '../api.ts'
import { exactMoney, money, plainDecimal } from '../format.ts'
import { html } from '../html.ts'
import { LazyPlot } from '../parts/lazy-plot.ts'
import { Proof } from '../parts/proof.ts'
import { Answered } from '../parts/states.ts'
import type { Balances } from '../../server/admin/resources/usage.ts'
import type { Read } from '../amounts.ts'

const DAYS = 30
const DAY_MS = 86_400_000
const HEIGHT = 160

export function BalanceCurve({ id }: { readonly id: string }) {
  const from = new Date(Date.now() - DAYS * DAY_MS).toISOString().slice(0, 10)
  const answer = useAnswer<Read<Balances>>(withQuery(`/admin/accounts/${id}/balance`, { from }))
  return html`<${Answered} of=${answer} lines=${6}>
    ${(balances: Read<Balances>) => html`<${Curve} balances=${balances} />`}
  <//>`
}

function Curve({ balances: { data, ledger } }: { readonly balances: Read<Balances> }) {
  const plot = useMemo(() => {
    // The day, and not the moment at which it was over.
    const times = data.map(({ at }) => (Date.parse(at) - DAY_MS) / 1000)
    return {
      times,
      series: [{ label: 'Balance', values: data.map((one) => Number(one.balance_usd)) }],
      marks: times.filter((_, index) => data[index]!.booked_usd !== '0'),
    }
  }, [data])
  const booked = data.filter((one) => one.booked_usd !== '0')
  const write = (value: number) => money(plainDecimal(String(value)))
  const lines = data.map((one) => `${dayOf(one.at)} ${exactMoney(one.balance_usd)}`)
  return html`<${LazyPlot}
      ...${plot}
      kind="lines"
      height=${HEIGHT}
      format=${write}
      formatAxis=${(values: readonly number[]) => values.map(write)}
      formatTime=${(seconds: number) => new Date(seconds * 1000).toISOString().slice(0, 10)}
      label=${`Balance at the end of each UTC day: ${lines[0]} to ${lines.at(-1)}`}
    />
    <p class="help">
      At the end of each UTC day.
      ${booked.length > 0 && html` <span class="ok" aria-hidden="true">▲</span> booked: ${booked.map((one) => `${dayOf(one.at)} ${exactMoney(one.booked_usd)}`).join(', ')}.`}
    </p>
    <${Proof} ledger=${ledger} />`
}

function dayOf(end: string): string {
  return new Date(Date.parse(end) - DAY_MS).toISOString().slice(0, 10)
}
