/** Words that a policy bans, and every place of a request where a client can write them. */

export const BANNED = 'sword fish'

/** The same value once for each string and each name of a member in it, with the banned words there. */
export function* banned(value: unknown): Generator<{ value: unknown; place: string }> {
  if (typeof value === 'string') {
    yield { value: `${value} ${BANNED}`, place: '' }
  } else if (Array.isArray(value)) {
    for (const [index, item] of value.entries()) {
      for (const one of banned(item)) {
        yield { value: value.with(index, one.value), place: `[${index}]${one.place}` }
      }
    }
  } else if (typeof value === 'object' && value !== null) {
    yield { value: { ...value, [`x ${BANNED}`]: true }, place: '.+' }
    for (const [name, item] of Object.entries(value)) {
      for (const one of banned(item)) {
        yield { value: { ...value, [name]: one.value }, place: `.${name}${one.place}` }
      }
    }
  }
}
