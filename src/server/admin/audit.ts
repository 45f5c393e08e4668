/** The audit log: routes that change something add entries, and `GET /admin/audit` lists them. */
import { isDeepStrictEqual } from 'node:util'
import { InvalidRequest, RevisionChanged, toErrorBody } from '../../errors/errors.ts'
import type { Runtime } from '../../pipeline/pipeline.ts'
import type { AuditFilter } from '../../state/audit.ts'
import type { Actor } from '../../access/actors.ts'
import { checkParameters, readLimit, readMoment, wantsCsv } from '../../errors/query.ts'
import { csvResponse } from './csv.ts'
import { otherLimits, shownLimits, type LimitMembers } from './resources/limit.ts'
import {
  CHANGE_COLUMNS,
  changeList,
  changeView,
  type AuditEntry,
  type MemberChange,
} from './resources/audit.ts'
import { type Answer, type AdminRequest, type Routes, needs } from './route.ts'
import type { Condition } from '../../accounts/accounts.ts'

export const auditRoutes: Routes = {
  '/audit': { GET: needs('people', listChanges) },
}

const PARAMETERS = new Set([
  'actor',
  'session',
  'action',
  'object',
  'from',
  'to',
  'limit',
  'after',
  'format',
])
const CSV_BATCH = 200

interface Change {
  readonly action: string
  readonly object: string
  /** Members before the change; without secrets, as `after`. Amounts are text. */
  readonly before?: object
  readonly after: object
}

/** The actor of a change, and the log that gets its entry. */
interface Noting {
  readonly runtime: Pick<Runtime, 'audit' | 'events' | 'log' | 'metrics'>
  readonly actor: Actor
}

/**
 * Adds an entry, unless nothing differs. Never rejects: the change is made, so a store that does not take the entry is a matter
 * for the log.
 * @returns the members that differ
 */
export async function note(
  { runtime: { audit, events, log, metrics }, actor }: Noting,
  { action, object, before = {}, after }: Change,
): Promise<AuditEntry['changes']> {
  const changes = changesBetween(before, after)
  if (Object.keys(changes).length === 0) return changes
  try {
    const { id: actor_id, name, address, session } = actor
    await audit.add({ actor: name, actor_id, session, address, action, object, changes })
    events.emit('audit', () => ({ actor: actor.name, action, object }))
  } catch (error) {
    metrics.auditFailed()
    log.error(`${action} of ${object} was done, but is missing in the audit log`, error)
  }
  return changes
}

/** Lists changes. @throws InvalidRequest for an unknown or unreadable parameter */
async function listChanges({ runtime, query }: AdminRequest): Promise<Answer | Response> {
  checkParameters(query, PARAMETERS)
  const isCsv = wantsCsv(query)
  const filter = filterOf(query)
  if (isCsv) return csvResponse('audit', CHANGE_COLUMNS, linesOf(runtime.audit, filter))
  const limit = readLimit(query.get('limit'))
  const after = query.get('after') ?? undefined
  // One entry more than requested tells that the list goes on.
  const rows = await runtime.audit.list(filter, after, limit + 1).catch(explain)
  const data = rows.slice(0, limit).map(changeView)
  return { body: { data, next: rows.length > limit ? data.at(-1)!.id : null } }
}

/** CSV lines, one for each changed member, newest first. */
async function* linesOf(audit: Runtime['audit'], filter: AuditFilter): AsyncGenerator<object> {
  let after: string | undefined
  for (;;) {
    const rows = await audit.list(filter, after, CSV_BATCH)
    for (const row of rows) {
      const { changes, ...entry } = changeView(row)
      for (const change of changes) yield { ...entry, ...change }
    }
    if (rows.length < CSV_BATCH) return
    after = rows.at(-1)!.id
  }
}

function filterOf(query: URLSearchParams): AuditFilter {
  const texts = ['actor', 'session', 'action', 'object'].filter((name) => query.has(name))
  const moments = ['from', 'to'].filter((name) => query.has(name))
  return Object.fromEntries([
    ...texts.map((name) => [name, query.get(name)!] as const),
    ...moments.map((name) => [name, readMoment(query.get(name)!, name)] as const),
  ])
}

function explain(error: unknown): never {
  if (!(error instanceof RangeError)) throw error
  const message = `Invalid 'after': ${error.message}.`
  throw new InvalidRequest('invalid_value', message, { param: 'after' })
}

/** Members that differ. Objects are compared member by member, lists as a whole; null means no value. */
export function changesBetween(before: object, after: object, path = ''): AuditEntry['changes'] {
  const [former, next] = [{ ...before }, { ...after }] as [Values, Values]
  const changes: Record<string, MemberChange> = {}
  for (const name of new Set([...Object.keys(former), ...Object.keys(next)])) {
    const [was, is] = [former[name] ?? undefined, next[name] ?? undefined]
    if (isPlain(was) && isPlain(is)) {
      Object.assign(changes, changesBetween(was, is, `${path}${name}.`))
    } else if (!isDeepStrictEqual(was, is)) {
      changes[path + name] = {
        ...(was !== undefined && { before: was }),
        ...(is !== undefined && { after: is }),
      }
    }
  }
  return changes
}

type Values = Readonly<Record<string, unknown>>

function isPlain(value: unknown): value is object {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

// Changes of objects that have a revision.

/** Settings for the audit log: limits of the simple form are members of their own there, so the list has the others alone. */
export const audited =
  <Item extends LimitMembers>(settings: (item: Item) => object) =>
  (item: Item) => ({ ...settings(item), limits: shownLimits({ limits: otherLimits(item) }) })

/** How objects of one kind are recorded and shown. */
interface Changing<Item extends RevisionChanged['current']> {
  readonly kind: string
  /** The settings of an object that a change may affect. */
  readonly settings: (item: Item) => object
  readonly view: (item: Item) => Promise<object>
}

/**
 * Changes an object if it has the revision of `If-Match`, records the change, and answers with the object and the members that differ. If it was changed
 * meanwhile, the answer is 412 with the present object.
 * @param action the action, such as `rotate`
 * @param change returns the object after the change, and further members of the answer
 * @param done members of the entry beside the settings of the object
 */
export async function changing<Item extends RevisionChanged['current']>(
  request: Pick<AdminRequest, 'runtime' | 'actor' | 'event'>,
  { kind, settings, view }: Changing<Item>,
  action: string,
  change: (
    condition: Condition<Item>,
  ) => Promise<{ readonly item: Item; readonly status?: number; readonly more?: object }>,
  done: object = {},
): Promise<Answer> {
  let before = {}
  const condition: Condition<Item> = {
    expected: revisionOf(request),
    by: request.actor.id,
    replaced: (former) => {
      before = settings(former)
    },
  }
  try {
    const { item, status = 200, more } = await change(condition)
    const object = `${kind}:${item.id}`
    const after = { ...settings(item), ...done }
    const changes = await note(request, { action: `${kind}.${action}`, object, before, after })
    const body = { data: await view(item), changes: changeList(changes), ...more }
    return { status, body }
  } catch (error) {
    if (!(error instanceof RevisionChanged)) throw error
    return { status: 412, body: { ...toErrorBody(error), data: await view(error.current as Item) } }
  }
}

/**
 * The revision that `If-Match` names; undefined without one, and for `*`.
 * @throws InvalidRequest for a header that is no revision
 */
export function revisionOf({ event }: Pick<AdminRequest, 'event'>): number | undefined {
  const value = event.req.headers.get('if-match')?.trim()
  if (value === undefined || value === '*') return undefined
  const digits = /^(?:W\/)?"(\d{1,15})"$/.exec(value)?.[1]
  if (digits !== undefined) return Number(digits)
  const message = `Invalid 'If-Match': expected the revision of the object in quotes, such as "3".`
  throw new InvalidRequest('invalid_value', message, { param: 'If-Match' })
}
