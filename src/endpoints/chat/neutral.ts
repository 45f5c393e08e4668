/**
 * Changes of a request that no vendor minds, so that every plugin gets the same form. What is so already stays the
 * same object: its source text can be copied.
 */
import { canonicalBase64 } from '../shared/media.ts'

export interface Typed {
  readonly type: string
  readonly [member: string]: any
}

const COMPOSITIONS = ['anyOf', 'oneOf', 'allOf']

/** A tool whose parameters are the schema of an object with `properties`: some vendors refuse any other. */
export function neutralTool(tool: Typed): Typed {
  if (tool.type !== 'function') return tool
  const { parameters } = tool.function
  const next = objectSchema(parameters ?? {})
  return next === parameters ? tool : { ...tool, function: { ...tool.function, parameters: next } }
}

function objectSchema(schema: Readonly<Record<string, unknown>>): object {
  const { type, properties, required } = schema
  const isComposed = COMPOSITIONS.some((name) => schema[name] !== undefined)
  const isEmpty = Object.keys(schema).length === 0
  const isObject = isEmpty || isComposed || Boolean(properties ?? required)
  const typed = type === undefined && isObject ? { type: 'object', ...schema } : schema
  return typed.type === 'object' && !properties ? { ...typed, properties: {} } : typed
}

/** A part of a message whose base64 is canonical: standard alphabet, padded, without white space. */
export function neutralPart(part: Typed): Typed {
  switch (part.type) {
    case 'image_url':
      return withMember(part, 'url')
    case 'input_audio':
      return withMember(part, 'data')
    case 'file':
      return withMember(part, 'file_data')
    default:
      return part
  }
}

function withMember(part: Typed, name: string): Typed {
  const inner = part[part.type]
  const source: unknown = inner[name]
  if (typeof source !== 'string') return part
  const next = canonicalSource(source)
  return next === source ? part : { ...part, [part.type]: { ...inner, [name]: next } }
}

/** @param source an address, a data URL, or base64, as the readers have checked it */
function canonicalSource(source: string): string {
  if (/^https?:/i.test(source.slice(0, 6))) return source
  if (!/^data:/i.test(source.slice(0, 5))) return canonicalBase64(source)
  const comma = source.indexOf(',')
  const head = source.slice(0, comma)
  const data = source.slice(comma + 1)
  const lower = head.replace(/^data:|;base64$/gi, (word) => word.toLowerCase())
  const canonical = canonicalBase64(data)
  return canonical === data && lower === head ? source : `${lower},${canonical}`
}
