import type { MessageEvent } from './events.ts'

export class MessageBuilder {
  /** Everything but the content, of which blocks are kept as JSON text. */
  #message: Record<string, unknown> = {}
  readonly #blocks: string[] = []
  #block: any
  /** The input of a call, as JSON text. */
  #input = ''

  add(event: MessageEvent): void {
    switch (event.type) {
      case 'message_start':
        this.#message = event.message
        break
      case 'content_block_start':
        this.#block = { ...event.content_block }
        this.#input = ''
        break
      case 'content_block_delta':
        this.#delta(event.delta)
        break
      case 'content_block_stop':
        this.#blocks.push(this.#blockText())
        break
      case 'message_delta': {
        const { type: _type, delta, ...others } = event
        // Vendors may leave counts out here that they gave at the beginning.
        const usage = { ...(this.#message.usage as object), ...others.usage }
        this.#message = { ...this.#message, ...delta, ...others, usage }
      }
    }
  }

  text(): string {
    const { content: _content, stop_reason, ...rest } = this.#message
    const { id, type, role, model, ...others } = rest
    const head = JSON.stringify({ id, type, role, model }).slice(0, -1)
    const tail = JSON.stringify({ stop_reason, ...others }).slice(1)
    return `${head},"content":[${this.#blocks.join(',')}],${tail}`
  }

  #delta(delta: any): void {
    const block = this.#block
    switch (delta.type) {
      case 'text_delta':
        block.text += delta.text
        break
      case 'thinking_delta':
        block.thinking += delta.thinking
        break
      case 'signature_delta':
        block.signature = delta.signature
        break
      case 'compaction_delta':
        if (delta.content) block.content = (block.content ?? '') + delta.content
        if (delta.encrypted_content) block.encrypted_content = delta.encrypted_content
        break
      // Absent without a citation: a client that validates answers takes no null here.
      case 'citations_delta':
        block.citations = [...(block.citations ?? []), delta.citation]
        break
      case 'input_json_delta':
        this.#input += delta.partial_json
    }
  }

  /**
   * The input of a call keeps the bytes that the model wrote: numbers may be larger than ours. A call that came whole has it
   * from its beginning.
   */
  #blockText(): string {
    const { input, ...block } = this.#block
    if (input === undefined || this.#input === '') return JSON.stringify(this.#block)
    return `${JSON.stringify(block).slice(0, -1)},"input":${inputText(this.#input)}}`
  }
}

/** An input has to be an object; any other value of a model is wrapped in one. */
function inputText(text: string): string {
  try {
    const value: unknown = JSON.parse(text)
    if (typeof value === 'object' && value !== null && !Array.isArray(value)) return text
  } catch {
    // Not JSON.
  }
  return JSON.stringify({ raw: text })
}
