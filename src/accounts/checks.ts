import { InvalidRequest } from '../errors/errors.ts'
const NAME_LENGTH = 200

/** @throws InvalidRequest for an empty or long name */
export function checkName(name: string): void {
  const length = name.trim().length
  need(length > 0 && length <= NAME_LENGTH, 'name', `a text of 1 to ${NAME_LENGTH} characters`)
}

/** @throws InvalidRequest about a member, unless the condition holds. @param expected description of a valid value */
export function need(holds: boolean, param: string, expected: string): void {
  if (holds) return
  throw new InvalidRequest('invalid_value', `"${param}" has to be ${expected}.`, { param })
}
