/** Commands over the request log of a running gateway. */
import type { Admin } from './admin.ts'
import type { Arguments } from './command.ts'
import { card, print, table } from './output.ts'

/** Options of `requests list` that are filters of the admin API. */
const FILTERS = ['key', 'account', 'model', 'status', 'code', 'outcome', 'guard', 'from', 'to']

/** `requests list`: newest first, with those that run. */
export async function listRequests(admin: Admin, args: Arguments): Promise<void> {
  const query = new URLSearchParams({ limit: args.text.limit ?? '50' })
  for (const name of FILTERS) {
    for (const value of args.text[name]?.split(',') ?? []) query.append(name, value)
  }
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

/** `requests show`: everything that is known of one call. */
export async function showRequest(admin: Admin, args: Arguments): Promise<void> {
  const [id = ''] = args.positionals
  const { data } = await admin.ask('GET', `/requests/${encodeURIComponent(id)}`)
  print(args, data, () => card(flat(data)))
}

/** Members of members as `times.total_ms`; without those that are not known. */
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
  return attempts.map(({ deployment, ms, result }, i) => [
    `${path}.${i + 1}`,
    `${deployment} ${result} after ${ms} ms`,
  ])
}
