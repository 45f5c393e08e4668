/**
 * Ids of tool calls. The vendor takes letters, digits, `_` and `-` only, and each id once in a conversation; clients bring
 * ids of other vendors, which have other letters or begin anew with each turn.
 */
export class CallIds {
  readonly #used = new Set<string>()
  /** Calls of the last turn that have no result yet, by the client's id. */
  #waiting: { readonly given: string | undefined; readonly name: string; readonly id: string }[] =
    []

  /** The vendor's id of a call that was made. */
  open(given: string | undefined, name: string): string {
    const plain = (given ?? '').replace(/[^\w-]/g, '_') || 'call'
    let id = plain
    for (let n = 2; this.#used.has(id); n++) id = `${plain}_${n}`
    this.#used.add(id)
    this.#waiting.push({ given, name, id })
    return id
  }

  /** The vendor's id of the call that this result is for; undefined when no such call waits. */
  answer(given: string): string | undefined {
    return this.#take((call) => call.given === given)
  }

  /** The same for results of functions, which have no id. */
  answerNamed(name: string): string | undefined {
    return this.#take((call) => call.name === name)
  }

  /** Calls that got no result, which no longer wait. */
  rest(): readonly string[] {
    const rest = this.#waiting
    this.#waiting = []
    return rest.map(({ id }) => id)
  }

  #take(isIt: (call: { given: string | undefined; name: string }) => boolean): string | undefined {
    const at = this.#waiting.findIndex(isIt)
    return at < 0 ? undefined : this.#waiting.splice(at, 1)[0]!.id
  }
}
