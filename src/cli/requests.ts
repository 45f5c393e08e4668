/** Commands over the request log of a running gateway. */
import { EventSourceParserStream } from 'eventsource-parser/stream'
import type { Admin } from './admin.ts'
import type { Arguments } from './command.ts'
import { printCsv } from './csv.ts'
import { REQUEST_FILTERS } from '../server/admin/resources/request.ts'
import { aligned, card, cell, parseExact, print, table } from './output.ts'
import { CommandError } from './command.ts'
import { queryOf } from './settings.ts'

const FILTERS = [...Object.keys(REQUEST_FILTERS), 'from', 'to']

/** `requests list`: newest first, with those that run. */
export async function listRequests(admin: Admin, args: Arguments): Promise<void> {
  const query = queryOf(args, FILTERS, { limit: args.text.limit ?? '50' })
  if (args.on.has('csv')) return printCsv(admin, `/requests?${query}`)
  const answer = await admin.ask('GET', `/requests?${query}`)
  const headings = ['AT', 'STATUS', 'OUTCOME', 'MS', 'MODEL', 'KEY', 'COST USD', 'REQUEST']
  const rows = answer.data.map((call: any) => [
    call.at,
    call.status || null,
    call.running ? 'running' : (call.code ?? call.outcome),
    call.times.total_ms,
    call.model,
    call.key_id,
    call.cost_usd,
    call.id,
  ])
  print(args, answer.data, () => {
    const stopped = answer.searched_to ? `Looked back to ${answer.searched_to}.\n` : ''
    return rows.length > 0 ? table(headings, rows) + stopped : `There are none.\n${stopped}`
  })
}

export async function showRequest(admin: Admin, args: Arguments): Promise<void> {
  const [id = ''] = args.positionals
  const { data } = await admin.ask('GET', `/requests/${encodeURIComponent(id)}`)
  const { bill, bill_missing: missing, ...call } = data
  if (!args.on.has('bill')) return print(args, data, () => card(flat(call)))
  if (!bill) {
    const why =
      missing === 'folded'
        ? 'its row was folded into a total'
        : missing === 'prices'
          ? 'the prices of its row are not stored'
          : 'it was not charged'
    throw new CommandError(`There is no bill of ${id}: ${why}.`)
  }
  print(args, bill, () => billText(bill))
}

/** The terms of a bill, a line each, whose amounts sum to the cost. */
function billText(bill: any): string {
  const rows = bill.lines.map((line: any) => {
    const name = line.price === line.priced_as ? line.price : `${line.price} (${line.priced_as})`
    return [line.source, name, line.quantity, '×', line.unit_price_usd, '=', line.amount_usd]
  })
  const others = [
    ['rounding', '', bill.rounding_usd],
    [`waived${bill.waived_because ? `, ${bill.waived_because}` : ''}`, '-', bill.waived_usd],
    ['cut', '-', bill.cut_usd],
  ].filter(([, , amount]) => cell(amount) !== '0')
  const sums = [
    ...others.map(([name, sign, amount]) => [name, '', '', '', '', sign, amount]),
    ['cost', '', '', '', '', '', bill.cost_usd],
  ]
  return aligned([...rows, ...sums])
}

export async function endRequest(admin: Admin, args: Arguments): Promise<void> {
  const [id = ''] = args.positionals
  const { data } = await admin.ask('POST', `/requests/${encodeURIComponent(id)}/end`)
  print(args, data, () => `${id} is ended.\n`)
}

/** `requests tail`: a line for each call that ends, until the gateway or the reader leaves. */
export async function tailRequests(admin: Admin, args: Arguments): Promise<void> {
  const query = queryOf(args, FILTERS)
  const { body } = await admin.open(`/events?${query}`)
  const events = body!
    .pipeThrough(new TextDecoderStream())
    .pipeThrough(new EventSourceParserStream())
  for await (const { event, data } of events) {
    if (event === 'skipped') process.stderr.write(`${JSON.parse(data).count} calls left out\n`)
    if (event !== 'call.ended' && event !== 'call.refused') continue
    process.stdout.write(args.on.has('json') ? `${data}\n` : lineOf(parseExact(data)))
  }
}

function lineOf(call: any): string {
  const { at, status, code, outcome, times, model, key_id, cost_usd, id } = call
  const members = [at, status, code ?? outcome, `${cell(times.total_ms)} ms`, model, key_id]
  const cost = cost_usd === null ? null : `$${cell(cost_usd)}`
  return `${[...members, cost, id].map(cell).join('  ')}\n`
}

/** Nested members under names such as `times.total_ms`; without unknown ones. */
function flat(value: object, prefix = ''): Record<string, unknown> {
  const members = Object.entries(value).flatMap(([name, member]): [string, unknown][] => {
    if (member === null) return []
    const path = prefix + name
    if (name === 'attempts') return attemptLines(path, member)
    if (typeof member !== 'object' || Array.isArray(member) || JSON.isRawJSON(member)) {
      return [[path, member]]
    }
    return Object.entries(flat(member, `${path}.`))
  })
  return Object.fromEntries(members)
}

function attemptLines(path: string, attempts: any[]): [string, unknown][] {
  return attempts.map(({ deployment, ms, result, status, message, model, skipped }, i) => {
    if (skipped) return [`${path}.${i + 1}`, `${model} not asked: ${skipped}`]
    const reason = [status && `status ${cell(status)}`, message].filter(Boolean).join(': ')
    const end = reason === '' ? '' : ` (${reason})`
    return [`${path}.${i + 1}`, `${deployment} ${result} after ${cell(ms)} ms${end}`]
  })
}
