/** Bodies of the admin API: strict objects. A refusal names the path of the member and the expected value. */
import * as v from 'valibot'
import { InvalidRequest, type InvalidCode } from '../../errors/errors.ts'
import { toConfigIssues } from '../../errors/issues.ts'
import { wholeNumber, wrongQuery } from '../../errors/query.ts'

/** Members in which a careless client sends a whole key. */
const MAY_BE_SECRET: ReadonlySet<string> = new Set(['sha256', 'start'])

/** `?before=` of the ledger: a sequence number. @throws InvalidRequest */
export function readCursor(value: string | null): number | undefined {
  if (value === null) return undefined
  const number = wholeNumber(value)
  if (number !== undefined) return number
  throw wrongQuery('before', 'the "next" of the page before')
}

/** Parses a body. @throws InvalidRequest for one that does not match the schema */
export function read<Shape extends v.GenericSchema>(
  schema: Shape,
  body: object,
): v.InferOutput<Shape> {
  const result = v.safeParse(schema, body)
  if (result.success) return result.output
  const [issue] = result.issues
  // The values come from the request, so only secrets by name are hidden, and members that may contain one by mistake.
  const source = { path: [], value: body, secrets: MAY_BE_SECRET }
  const [found] = toConfigIssues([issue!], source, schema)
  const { path, message } = found!
  const where = path === '' ? 'Invalid body' : `Invalid '${path}'`
  throw new InvalidRequest(codeOf(issue!), `${where}: ${message}.`.replace('?.', '?'), {
    param: path || null,
  })
}

function codeOf(issue: v.BaseIssue<unknown>): InvalidCode {
  if (issue.type === 'strict_object') {
    if (issue.expected === 'never') return 'unsupported_parameter'
    if (issue.path?.at(-1)?.origin === 'key') return 'missing_required_parameter'
  }
  return issue.kind === 'schema' && issue.type !== 'picklist' ? 'invalid_type' : 'invalid_value'
}

type WithoutNulls<Body> = { [Name in keyof Body]: Exclude<Body[Name], null> }

/** Parses as {@link read}, where null and absent mean the same. */
export function readNew<Shape extends v.GenericSchema<unknown, object>>(
  schema: Shape,
  body: object,
): WithoutNulls<v.InferOutput<Shape>> {
  const entries = Object.entries(read(schema, body)).filter(([, value]) => value !== null)
  return Object.fromEntries(entries) as WithoutNulls<v.InferOutput<Shape>>
}
