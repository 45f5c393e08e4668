/** GET routes: no body, and an answer that the gateway gives itself. */
import { toErrorBody } from '../../errors/errors.ts'
import type { Call, Done, Outgoing, WireFormat } from '../../pipeline/pipeline.ts'
import { PublicDocument, writeDocument } from '../shared/document.ts'
import { WholeWriter } from '../shared/write.ts'

/** A route that no model works for. */
export interface GetRoute {
  /** With `{name}` at its end where the rest of the path, slashes included, is an argument. */
  readonly path: string
  /** Whether it needs a key. */
  readonly authenticated: boolean
  readonly cacheControl: string
  /** The JSON text of the answer, or a document that is the same for every client. */
  answer(call: Call): string | PublicDocument | Promise<string>
}

/** The wire format of a GET route. Its only part is the answer. */
export function formatOf({
  path,
  cacheControl,
}: GetRoute): WireFormat<never, string | PublicDocument> {
  return {
    path,
    read: () => Promise.reject(new Error(`${path} takes no body`)),
    write(call, out, done) {
      call.headers['cache-control'] = cacheControl
      return new AnswerWriter(call, out, done)
    },
    writeError: (error) => {
      const { status, headers } = error
      return { status, headers, body: toErrorBody(error) }
    },
  }
}

/** Writes the one part of an answer: a text of its own, or a document that many clients get. */
class AnswerWriter extends WholeWriter<string | PublicDocument> {
  readonly #write: (document: PublicDocument) => Promise<void>
  readonly #done: Done
  #document: PublicDocument | undefined

  constructor(call: Call, out: Outgoing, done: Done) {
    super(call, out, done, ([text]) => ({ text: text as string }))
    this.#done = done
    this.#write = (document) => writeDocument(call, out, document)
  }

  override push(part: string | PublicDocument): void {
    if (typeof part === 'string') super.push(part)
    else this.#document = part
  }

  override end(): void {
    if (this.#document) this.#write(this.#document).then(() => this.#done(), this.#done)
    else super.end()
  }
}
