/** Who releases what was acquired. */
type Finaliser = () => unknown

/**
 * What a call has acquired. Finalisers run last in first out, exactly once; one that throws is reported and does not stop
 * the others. A finaliser that comes after the end runs at once: an acquisition that was under way when the client left
 * is still released.
 */
export class Scope {
  #finalisers: Finaliser[] | undefined = []
  readonly #report: (error: unknown) => void

  constructor(report: (error: unknown) => void) {
    this.#report = report
  }

  defer(finaliser: Finaliser): void {
    if (this.#finalisers) this.#finalisers.push(finaliser)
    else void this.#run(finaliser)
  }

  /** A promise only while a finaliser needs time. */
  close(): void | Promise<void> {
    const finalisers = this.#finalisers
    if (!finalisers) return undefined
    this.#finalisers = undefined
    return this.#unwind(finalisers)
  }

  #unwind(finalisers: Finaliser[]): void | Promise<void> {
    for (let next = finalisers.pop(); next; next = finalisers.pop()) {
      const pending = this.#run(next)
      if (pending) return pending.then(() => this.#unwind(finalisers))
    }
  }

  #run(finaliser: Finaliser): Promise<unknown> | undefined {
    try {
      const result = finaliser()
      if (result instanceof Promise) return result.catch(this.#report)
    } catch (error) {
      this.#report(error)
    }
    return undefined
  }
}
