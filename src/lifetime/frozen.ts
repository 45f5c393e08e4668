/** A value of plain objects and lists that nothing can change any more: what plugins are given, and calls share. Bytes stay as they are. */
export function deepFrozen<T>(value: T): T {
  if (typeof value !== 'object' || value === null || Object.isFrozen(value)) return value
  if (Array.isArray(value)) for (let i = 0; i < value.length; i++) deepFrozen(value[i])
  else if (isPlain(value)) for (const name in value) deepFrozen(value[name])
  else return value
  return Object.freeze(value)
}

function isPlain(value: object): value is Record<string, unknown> {
  const prototype: unknown = Object.getPrototypeOf(value)
  return prototype === Object.prototype || prototype === null
}
