/** GET routes: no body, and an answer that the gateway gives itself. */
import { toErrorBody } from '../../errors/errors.ts'
import type { Call, WireFormat } from '../../pipeline/pipeline.ts'
import { PublicDocument, writeDocument } from '../shared/document.ts'
import { writeJson } from '../shared/write.ts'

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
    async write(call, reply, out) {
      call.headers['cache-control'] = cacheControl
      for await (const answer of reply.parts) {
        if (typeof answer === 'string') await writeJson(call, out, answer)
        else await writeDocument(call, out, answer)
      }
    },
    writeError: (error) => {
      const { status, headers } = error
      return { status, headers, body: toErrorBody(error) }
    },
  }
}
