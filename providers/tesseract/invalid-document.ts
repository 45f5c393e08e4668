/** The client sent a document that cannot be read. The message is written for the client. */
export class InvalidDocument extends Error {
  readonly code: InvalidDocumentCode

  constructor(code: InvalidDocumentCode, message: string) {
    super(message)
    this.name = 'InvalidDocument'
    this.code = code
  }
}

/** Error code for the client. `invalid_value` is about the selection of pages. */
export type InvalidDocumentCode = 'invalid_document' | 'invalid_image' | 'invalid_value'
