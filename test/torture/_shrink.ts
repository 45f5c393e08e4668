/** Finds a shorter input that fails as well: halves are left out, then quarters, and so on. */

/** Tries in all; each of them plays the case again. */
const MOST_TRIES = 400

/**
 * @param fails whether a shorter input fails in the same way
 * @returns the shortest input found
 */
export async function shrinkBytes(
  bytes: Buffer,
  fails: (shorter: Buffer) => Promise<boolean>,
): Promise<Buffer> {
  let shortest = bytes
  let tries = 0
  for (let part = Math.ceil(bytes.length / 2); part >= 1 && tries < MOST_TRIES;) {
    let found = false
    for (let from = 0; from < shortest.length && tries < MOST_TRIES;) {
      const shorter = Buffer.concat([shortest.subarray(0, from), shortest.subarray(from + part)])
      tries++
      if (shorter.length < shortest.length && (await fails(shorter))) {
        shortest = shorter
        found = true
      } else {
        from += part
      }
    }
    if (part === 1 && !found) break
    part = found ? Math.min(part, Math.ceil(shortest.length / 2)) : Math.floor(part / 2)
  }
  return shortest
}

/** Does what {@link shrinkBytes} does with a JSON text: it leaves out members and items, the outer ones first. */
export async function shrinkJson(
  value: unknown,
  fails: (smaller: unknown) => Promise<boolean>,
): Promise<unknown> {
  let smallest = value
  let tries = 0
  for (let found = true; found && tries < MOST_TRIES;) {
    found = false
    for (const path of pathsOf(smallest)) {
      if (tries >= MOST_TRIES) break
      const smaller = without(smallest, path)
      tries++
      if (!(await fails(smaller))) continue
      smallest = smaller
      found = true
      break
    }
  }
  return smallest
}

type Path = readonly (string | number)[]

/** The paths of all members and items, the outer ones first. */
function pathsOf(value: unknown): Path[] {
  const paths: Path[] = []
  let level: { readonly path: Path; readonly value: unknown }[] = [{ path: [], value }]
  while (level.length > 0 && paths.length < 1000) {
    level = level.flatMap(({ path, value }) =>
      typeof value === 'object' && value !== null
        ? Object.entries(value).map(([name, one]) => ({ path: [...path, name], value: one }))
        : [],
    )
    paths.push(...level.map(({ path }) => path))
  }
  return paths
}

function without(value: unknown, [name, ...rest]: Path): unknown {
  if (Array.isArray(value)) {
    return rest.length === 0
      ? value.filter((_, i) => String(i) !== name)
      : value.map((one, i) => (String(i) === name ? without(one, rest) : one))
  }
  const members = Object.entries(value as object)
  return Object.fromEntries(
    rest.length === 0
      ? members.filter(([one]) => one !== name)
      : members.map(([one, of]) => [one, one === name ? without(of, rest) : of]),
  )
}
