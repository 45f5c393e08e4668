/** Results of calls, in Google's form: as many as there are calls, and in their order. */
import type { ChatMessage, Host } from '../../src/plugin.ts'
import { FAILED } from '../shared/conversations.ts'
import { CallIds, type Call } from '../shared/tool-calls.ts'
import { isBlank, toParts, type Part } from './media.ts'
import { isBefore } from '../shared/gemini.ts'

/** The result of a call that was never answered. */
const MISSING = { error: 'no result' }

interface OpenCall {
  readonly call: Call
  response: Part
  media: readonly Part[]
}

/** The calls of one turn, and their results. */
export class CallResults {
  readonly #model: string
  readonly #fail: Host['fail']
  readonly #ids = new CallIds()
  /** The calls of the last turn, by the ids that {@link CallIds} made. */
  readonly #calls = new Map<string, OpenCall>()

  constructor(model: string, fail: Host['fail']) {
    this.#model = model
    this.#fail = fail
  }

  /** Registers a call. */
  open(call: Call): void {
    this.#calls.set(this.#ids.open(call.id, call.name), { call, response: MISSING, media: [] })
  }

  /**
   * Takes a result.
   * @param path of the message, for the error
   * @throws the failure class `bad_request` when no such call waits
   */
  answer(message: ChatMessage, path: string): void {
    const open = this.#calls.get(this.#ids.answer(message, path, this.#fail))!
    const parts = toParts(message.content, { path, fail: this.#fail, model: '' })
    const texts = parts.filter(({ text }) => text !== undefined)
    // The result is text: in an object, large integers would lose digits.
    const result = texts.every(isBlank) ? '' : texts.map(({ text }) => text as string).join('\n')
    open.response = message.is_error === true ? { error: result || FAILED } : { result }
    open.media = parts.filter(({ text }) => text === undefined)
  }

  /** The results of the calls so far, which are then forgotten. */
  take(): Part[] {
    this.#ids.rest()
    const calls = [...this.#calls.values()]
    this.#calls.clear()
    const inside = !isBefore(this.#model, 3)
    const responses = calls.map(({ call, response, media }) => {
      const parts = inside && media.length > 0 ? { parts: media } : {}
      return { functionResponse: { name: call.name, response, ...toId(call.id), ...parts } }
    })
    return inside ? responses : [...responses, ...calls.flatMap(({ media }) => media)]
  }
}

/** Google's own ids go back. Ids that the gateway made up start with `call_` and are left out. */
export function toId(id: string | undefined): Part {
  return id && !id.startsWith('call_') ? { id } : {}
}
