/** The texts inside JSON values, for guards that read all of them. */
import type { AtomicText } from '../../guard/adapter.ts'

/** Words of JSON Schema and of the wire format. As member names they are not the client's words. */
const FORMAL_NAMES = new Set(
  (
    '$anchor $comment $defs $dynamicAnchor $dynamicRef $id $ref $schema $vocabulary additionalItems additionalProperties ' +
    'allOf allowed_tools anyOf cache_control const contains content contentEncoding contentMediaType contentSchema custom default ' +
    'definition definitions dependencies dependentRequired dependentSchemas deprecated description else enum examples ' +
    'exclusiveMaximum exclusiveMinimum format function grammar id if items json_schema maxContains maxItems maxLength ' +
    'maxProperties maximum minContains minItems minLength minProperties minimum mode multipleOf name not nullable oneOf ' +
    'parameters pattern patternProperties prefixItems properties propertyNames readOnly required schema strict syntax ' +
    'text then title tools type unevaluatedItems unevaluatedProperties uniqueItems writeOnly'
  ).split(' '),
)
/** Words of JSON Schema and of the wire format as values, by member name. */
const FORMAL_VALUES = new Map([
  [
    'type',
    new Set<unknown>(
      (
        'array boolean integer null number object string allowed_tools content custom ephemeral function grammar ' +
        'json_object json_schema text'
      ).split(' '),
    ),
  ],
  ['mode', new Set<unknown>(['auto', 'required'])],
])

/**
 * Every string in a value and every member name, once each, in the order of the document. Not recursive: a client's
 * JSON may nest deeper than the stack.
 * @param formal whether words of JSON Schema and of the wire format count too
 */
export function stringsIn(value: unknown, formal = false): readonly string[] {
  const texts = new Set<string>()
  const rest: unknown[] = [value]
  while (rest.length > 0) {
    const next = rest.pop()
    if (typeof next === 'string') {
      if (next !== '') texts.add(next)
    } else if (Array.isArray(next)) {
      for (let i = next.length - 1; i >= 0; i--) rest.push(next[i])
    } else if (typeof next === 'object' && next !== null) {
      const members = Object.entries(next)
      for (let i = members.length - 1; i >= 0; i--) {
        const [name, member] = members[i]!
        if (formal || !FORMAL_VALUES.get(name)?.has(member)) rest.push(member)
        if (formal || !FORMAL_NAMES.has(name)) rest.push(name)
      }
    }
  }
  return [...texts]
}

/** Whether a text is base64 of either alphabet, or a carrier of reasoning, which hold no words; others have to be read. */
export function isOpaque(text: string): boolean {
  return /^(?:sg1\.)?[A-Za-z0-9+/_-]*={0,2}\s*$/.test(text)
}

/** The strings in a JSON text, as duplicates of it for local guards; none if it is not JSON. */
export function stringsInJson(text: string): AtomicText[] {
  try {
    return stringsIn(JSON.parse(text), true).map((one) => ({ text: one, duplicate: true }))
  } catch {
    return []
  }
}

/**
 * A value with all of its strings changed, names of members apart; the value itself where none changes.
 * @param stays whether a member is left as it is
 */
export function mapStrings(
  value: unknown,
  change: (text: string) => string,
  stays?: (name: string, value: unknown) => boolean,
): unknown {
  if (typeof value === 'string') return value === '' ? value : change(value)
  if (typeof value !== 'object' || value === null) return value
  if (Array.isArray(value)) {
    const list = value.map((one) => mapStrings(one, change, stays))
    return list.every((one, index) => one === value[index]) ? value : list
  }
  let changed: Record<string, unknown> | undefined
  for (const [name, member] of Object.entries(value)) {
    const made = stays?.(name, member) ? member : mapStrings(member, change, stays)
    if (made !== member) (changed ??= {})[name] = made
  }
  return changed ? { ...value, ...changed } : value
}
