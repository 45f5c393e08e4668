/** Holder of memory that only serves speed and can be given back at any time. */
export interface BudgetOwner {
  /** Forgets everything. */
  drop(): void
}

/** Bounds the memory of all owners together: the one that has not grown for the longest time drops its share first. */
class MemoryBudget {
  readonly #limit: number
  /** Bytes by owner; the one that grew last is last. */
  readonly #owners = new Map<BudgetOwner, number>()
  #total = 0

  /** @param limit the limit in bytes */
  constructor(limit: number) {
    this.#limit = limit
  }

  /** Notes that an owner holds so many bytes more; others may have to drop theirs. @returns how many it holds */
  reserve(owner: BudgetOwner, bytes: number): number {
    const held = (this.#owners.get(owner) ?? 0) + bytes
    this.#owners.delete(owner)
    this.#owners.set(owner, held)
    this.#total += bytes
    if (this.#total > this.#limit) this.#makeSpace(owner)
    return held
  }

  /** Notes that an owner holds nothing any more. */
  release(owner: BudgetOwner): void {
    this.#total -= this.#owners.get(owner) ?? 0
    this.#owners.delete(owner)
  }

  #makeSpace(owner: BudgetOwner): void {
    for (const oldest of this.#owners.keys()) {
      if (this.#total <= this.#limit || oldest === owner) return
      this.release(oldest)
      oldest.drop()
    }
  }
}

/** What all patterns of the process have learnt from texts. */
export const memoryBudget = new MemoryBudget(128 << 20)
