/** Memory for what automata remember to be fast. All of it can be dropped, and is when there is too much. */

export interface Owner {
  /** Forgets everything. */
  drop(): void
}

/** Of the whole process, in bytes. */
const LIMIT = 128 << 20

/** Bytes of each; those that have grown last are last. */
const owners = new Map<Owner, number>()
let total = 0
let latest: Owner | undefined

/** Notes that an owner holds so many bytes more. Others may have to drop theirs. @returns how many it holds */
export function charge(owner: Owner, bytes: number): number {
  const held = (owners.get(owner) ?? 0) + bytes
  if (owner !== latest) owners.delete(owner)
  latest = owner
  owners.set(owner, held)
  total += bytes
  if (total > LIMIT) makeSpace(owner)
  return held
}

/** Notes that an owner holds nothing any more. */
export function release(owner: Owner): void {
  total -= owners.get(owner) ?? 0
  owners.delete(owner)
  if (owner === latest) latest = undefined
}

function makeSpace(owner: Owner): void {
  for (const oldest of owners.keys()) {
    if (total <= LIMIT || oldest === owner) return
    release(oldest)
    oldest.drop()
  }
}
