/** One candidate of an answer, part by part: what it says in the gateway's form, and what has to be remembered of it. */
import { hash } from 'node:crypto'
import type { ChatDelta, Host, ReasoningDetail, ToolCallDelta } from '../../src/plugin.ts'
import { PartialArguments } from './arguments.ts'
import { FORMAT } from './contents.ts'
import { notAnAnswer } from '../shared/http.ts'
import { searchesIn, toAnnotations } from './grounding.ts'

/** A call whose arguments are still arriving. */
interface OpenCall {
  readonly call: any
  readonly signature: string | undefined
  readonly values: PartialArguments
}

export class Candidate {
  finished = false
  /** Names this candidate in ids that are made up for its calls. */
  readonly #seed: string
  readonly #fail: Host['fail']
  /** Of the reasoning block that is being written. */
  #block = -1
  #thinking = false
  #calls = 0
  #images = 0
  #open: OpenCall | undefined
  /** For the places of sources in it. */
  #text = ''
  #grounding: any = undefined

  constructor(seed: string, fail: Host['fail']) {
    this.#seed = seed
    this.#fail = fail
  }

  /** Searches that Google ran for it. */
  get searches(): number | undefined {
    return this.#grounding && searchesIn(this.#grounding)
  }

  /**
   * What an event adds; undefined when that is nothing.
   * @throws the failure class `upstream_error` when the arguments of a call cannot be put together
   */
  read({ content, finishReason, groundingMetadata }: any): ChatDelta | undefined {
    const said: ChatDelta = {}
    const parts: unknown = content?.parts
    if (Array.isArray(parts)) for (const part of parts) if (part) this.#part(part, said)
    if (finishReason) this.#endCall(said)
    if (said.content) this.#text += said.content
    if (groundingMetadata) this.#grounding = groundingMetadata
    return Object.keys(said).length > 0 ? said : undefined
  }

  /** What can be said only when all is there. */
  end(): ChatDelta | undefined {
    if (!this.#grounding) return undefined
    const annotations = toAnnotations(this.#grounding, this.#text)
    return annotations.length > 0 ? { annotations } : undefined
  }

  #part(part: any, said: ChatDelta): void {
    const { text, thought, functionCall, inlineData, thoughtSignature: signature } = part
    if (functionCall) return this.#called(functionCall, signature, said)
    if (thought) this.#thought(text, said)
    else if (text) {
      said.content = (said.content ?? '') + text
      this.#thinking = false
    } else if (inlineData?.mimeType?.startsWith('image/')) this.#drawn(inlineData, said)
    if (signature) this.#sealed(signature, null, said)
  }

  #thought(text: unknown, said: ChatDelta): void {
    if (typeof text !== 'string' || !text) return
    if (!this.#thinking) this.#block++
    this.#thinking = true
    said.reasoning = (said.reasoning ?? '') + text
    this.#detail({ type: 'reasoning.text', text, format: FORMAT, index: this.#block }, said)
  }

  /** A signature is a block of its own, and goes back with the call of this id, or else with the text. */
  #sealed(data: string, id: string | null, said: ChatDelta): void {
    this.#thinking = false
    const index = ++this.#block
    this.#detail({ type: 'reasoning.encrypted', data, id, format: FORMAT, index }, said)
  }

  #detail(detail: ReasoningDetail, said: ChatDelta): void {
    said.reasoning_details = [...(said.reasoning_details ?? []), detail]
  }

  #drawn({ mimeType, data }: any, said: ChatDelta): void {
    const url = `data:${mimeType};base64,${data}`
    const image = { type: 'image_url', image_url: { url }, index: this.#images++ }
    said.images = [...((said.images as object[]) ?? []), image]
  }

  #called(call: any, signature: string | undefined, said: ChatDelta): void {
    if (call.name) {
      this.#endCall(said)
      if (!call.willContinue)
        return this.#say(call, JSON.stringify(call.args ?? {}), signature, said)
      this.#open = { call, signature, values: new PartialArguments() }
    }
    const open = this.#open
    if (!open) return
    if (call.partialArgs && !open.values.add(call.partialArgs)) {
      throw notAnAnswer(this.#fail)
    }
    if (!call.willContinue) this.#endCall(said)
  }

  #endCall(said: ChatDelta): void {
    const open = this.#open
    this.#open = undefined
    if (open) this.#say(open.call, String(open.values), open.signature, said)
  }

  #say({ id, name }: any, text: string, signature: string | undefined, said: ChatDelta): void {
    this.#thinking = false
    const index = this.#calls++
    const call: ToolCallDelta = { index, type: 'function', function: { name, arguments: text } }
    // A signature finds its way back by the id of its call.
    if (id || signature) call.id = id || this.#newId(index)
    if (signature) this.#sealed(signature, call.id!, said)
    said.tool_calls = [...(said.tool_calls ?? []), call]
  }

  /** The same answer gets the same ids. */
  #newId(index: number): string {
    return `call_${hash('sha256', `${this.#seed}:${index}`, 'hex').slice(0, 24)}`
  }
}
