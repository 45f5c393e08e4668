/** Releases what was acquired, for example a lease at the ledger or a connection. */
type Finalizer = () => unknown

/**
 * The resources of one call. Finalizers run in reverse order, each exactly once. One that throws is reported and does not
 * stop the others. A finalizer that is added after the end runs at once, so an acquisition that was under way when the
 * client left is still released.
 */
export class Scope {
  #finalizers: Finalizer[] | undefined = []
  readonly #report: (error: unknown) => void

  /** @param report receives what finalizers throw; must not throw */
  constructor(report: (error: unknown) => void) {
    this.#report = report
  }

  /** @param finalizer may return a promise; the next finalizer waits for it */
  defer(finalizer: Finalizer): void {
    if (this.#finalizers) this.#finalizers.push(finalizer)
    else void this.#run(finalizer)
  }

  /** Runs all finalizers; later calls do nothing. Returns a promise only while a finalizer needs time. */
  close(): void | Promise<void> {
    const finalizers = this.#finalizers
    if (!finalizers) return undefined
    this.#finalizers = undefined
    return this.#unwind(finalizers)
  }

  #unwind(finalizers: Finalizer[]): void | Promise<void> {
    for (let next = finalizers.pop(); next; next = finalizers.pop()) {
      const pending = this.#run(next)
      if (pending) return pending.then(() => this.#unwind(finalizers))
    }
  }

  #run(finalizer: Finalizer): Promise<unknown> | undefined {
    try {
      const result = finalizer()
      if (result instanceof Promise) return result.catch(this.#report)
    } catch (error) {
      this.#report(error)
    }
    return undefined
  }
}
