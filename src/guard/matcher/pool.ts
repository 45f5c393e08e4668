/** Memory for what automata remember to be fast. All of it can be dropped at any time, and is when there is too much. */

export interface Owner {
  /** Forgets everything. */
  drop(): void
}

/** Of the whole process, in bytes. */
const LIMIT = 128 << 20

/** Bytes of each; those that have grown last are last. */
const owners = new Map<Owner, number>()
let total = 0

/** Notes that an owner holds so many bytes more. Others may have to drop theirs. @returns how many it holds */
export function charge(owner: Owner, bytes: number): number {
  const held = (owners.get(owner) ?? 0) + bytes
  owners.delete(owner)
  owners.set(owner, held)
  total += bytes
  for (const oldest of owners.keys()) {
    if (total <= LIMIT || oldest === owner) break
    release(oldest)
    oldest.drop()
  }
  return held
}

/** Notes that an owner holds nothing any more. */
export function release(owner: Owner): void {
  total -= owners.get(owner) ?? 0
  owners.delete(owner)
}
