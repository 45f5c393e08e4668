import * as v from 'valibot'
import { InvalidRequest } from '../errors/errors.ts'
import type { Settings } from '../server/admin/resources/settings.ts'

const ID = /^[a-z0-9_-]{1,64}$/
const NAME_LENGTH = 200

export function checkSettings(settings: Settings, change: object): void {
  for (const [name, { stored, schema, record = schema }] of Object.entries(settings)) {
    const value = (change as Readonly<Record<string, unknown>>)[stored]
    if (value === undefined || value === null) continue
    const [issue] = v.safeParse(record, value).issues ?? []
    const path = [name, ...(issue?.path ?? []).map(({ key }) => String(key))]
    if (issue) need(false, path.join('.'), issue.message)
  }
}

/** @throws InvalidRequest for an empty or long name */
export function checkName(name: string): void {
  const length = name.trim().length
  need(length > 0 && length <= NAME_LENGTH, 'name', `a text of 1 to ${NAME_LENGTH} characters`)
}

/** @throws InvalidRequest for a malformed id */
export function checkId(id: string): void {
  need(isId(id), 'id', '1 to 64 lower-case letters, digits, "_" or "-"')
}

export function isId(id: string): boolean {
  return ID.test(id)
}

/** @throws InvalidRequest about a member, unless the condition holds. @param expected description of a valid value */
export function need(holds: boolean, param: string, expected: string): void {
  if (holds) return
  throw new InvalidRequest('invalid_value', `"${param}" has to be ${expected}.`, { param })
}
