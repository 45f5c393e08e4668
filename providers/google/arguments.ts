/** An object or a list under construction. Without a prototype, so that every member name is safe. */
type Node = Record<string, unknown> | unknown[]

const MAX_DEPTH = 64
const STEP = /\.([^.[\]]+)|\[(\d+)\]|\['((?:[^'\\]|\\.)*)'\]|\["((?:[^"\\]|\\.)*)"\]/gy

/**
 * Arguments of a call that arrive value by value: `[{ jsonPath: '$.a[0].b', stringValue: 'x', willContinue: true }]`.
 * Some endpoints stream them without being asked to.
 */
export class PartialArguments {
  readonly #root = Object.create(null) as Node

  /** Adds values. @returns false when a path is invalid */
  add(values: unknown): boolean {
    if (!Array.isArray(values)) return false
    return values.every((value) => {
      const path = pathOf(value?.jsonPath)
      return path !== undefined && this.#set(path, value)
    })
  }

  /** The arguments so far as JSON. */
  toString(): string {
    return JSON.stringify(this.#root)
  }

  #set(path: readonly (string | number)[], value: any): boolean {
    let node: any = this.#root
    for (let i = 0; i < path.length - 1; i++) {
      const key = path[i]!
      if (!fits(node, key)) return false
      node[key] ??= typeof path[i + 1] === 'number' ? [] : Object.create(null)
      node = node[key]
    }
    const key = path.at(-1)!
    if (!fits(node, key)) return false
    const old = node[key]
    const { stringValue, numberValue, boolValue } = value
    // Texts arrive in pieces. A value that is not a text, number or boolean is null.
    if (typeof stringValue === 'string') {
      node[key] = typeof old === 'string' ? old + stringValue : stringValue
    } else node[key] = numberValue ?? boolValue ?? null
    return true
  }
}

/** Whether a container can have this member. Lists have no gaps. */
function fits(node: unknown, key: string | number): boolean {
  if (typeof node !== 'object' || node === null) return false
  return Array.isArray(node)
    ? typeof key === 'number' && key <= node.length
    : typeof key === 'string'
}

function pathOf(text: unknown): (string | number)[] | undefined {
  if (typeof text !== 'string' || !text.startsWith('$')) return undefined
  const path: (string | number)[] = []
  let read = 1
  STEP.lastIndex = read
  for (let match = STEP.exec(text); match; match = STEP.exec(text)) {
    const [, name, index, single, double] = match
    path.push(index === undefined ? (name ?? unescaped(single ?? double!)) : Number(index))
    read = STEP.lastIndex
  }
  return read === text.length && path.length > 0 && path.length <= MAX_DEPTH ? path : undefined
}

function unescaped(text: string): string {
  return text.replace(/\\(.)/g, '$1')
}
