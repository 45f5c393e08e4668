/** Changes of objects that have a revision. */
import type { Condition } from '../../accounts/accounts.ts'
import { InvalidRequest, RevisionChanged, toErrorBody } from '../../errors/errors.ts'
import { note } from './audit.ts'
import type { Answer, AdminRequest } from './route.ts'

/** How objects of one kind are recorded and shown. */
interface Changing<Item extends RevisionChanged['current']> {
  readonly kind: string
  /** The settings of an object that a change may affect. */
  readonly settings: (item: Item) => object
  readonly view: (item: Item) => Promise<object>
}

/**
 * Changes an object if it has the revision of `If-Match`, records the change, and answers with the object. If it was changed
 * meanwhile, the answer is 412 with the present object.
 * @param action such as `rotate`
 * @param change returns the object after the change, and further members of the answer
 */
export async function changing<Item extends RevisionChanged['current']>(
  request: AdminRequest,
  { kind, settings, view }: Changing<Item>,
  action: string,
  change: (
    condition: Condition<Item>,
  ) => Promise<{ readonly item: Item; readonly status?: number; readonly more?: object }>,
): Promise<Answer> {
  let before = {}
  const condition: Condition<Item> = {
    expected: revisionOf(request),
    replaced: (former) => {
      before = settings(former)
    },
  }
  try {
    const { item, status = 200, more } = await change(condition)
    const object = `${kind}:${item.id}`
    await note(request, { action: `${kind}.${action}`, object, before, after: settings(item) })
    return { status, body: { data: await view(item), ...more } }
  } catch (error) {
    if (!(error instanceof RevisionChanged)) throw error
    return { status: 412, body: { ...toErrorBody(error), data: await view(error.current as Item) } }
  }
}

/**
 * The revision that `If-Match` names; undefined without one, and for `*`.
 * @throws InvalidRequest for a header that is no revision
 */
function revisionOf({ event }: AdminRequest): number | undefined {
  const given = event.req.headers.get('if-match')?.trim()
  if (given === undefined || given === '*') return undefined
  const digits = /^(?:W\/)?"(\d{1,15})"$/.exec(given)?.[1]
  if (digits !== undefined) return Number(digits)
  const message = `Invalid 'If-Match': expected the revision of the object in quotes, such as "3".`
  throw new InvalidRequest('invalid_value', message, { param: 'If-Match' })
}
