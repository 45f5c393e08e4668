/** The client sent what cannot be read. The message is written for the client. */
export class Refusal extends Error {
  readonly code: RefusalCode

  constructor(code: RefusalCode, message: string) {
    super(message)
    this.name = 'Refusal'
    this.code = code
  }
}

/** Of the wire contract, 2.2; `invalid_value` is about the selection of pages. */
export type RefusalCode = 'invalid_document' | 'invalid_image' | 'invalid_value'
