/** GET routes: no body, and an answer that the gateway gives itself. */
import { toErrorBody } from '../../errors/errors.ts'
import type { Call, Stage, WireFormat } from '../../pipeline/pipeline.ts'
import { feedOf } from '../../stream/flow.ts'
import { documentBody, PublicDocument } from './document.ts'
import { WholeWriter, type WholeBody } from '../shared/write.ts'

export interface GetRoute {
  /** The path, with `{name}` at its end where the rest, slashes included, is an argument. */
  readonly path: string
  readonly authenticated: boolean
  readonly cacheControl: string
  /** The JSON text of the answer, or a document that is the same for every client. */
  answer(call: Call): string | PublicDocument | Promise<string>
}

export function formatOf({ path, cacheControl }: GetRoute): WireFormat<never, WholeBody> {
  return {
    path,
    read: () => Promise.reject(new Error(`${path} takes no body`)),
    write(call, out, done) {
      call.headers['cache-control'] = cacheControl
      return new WholeWriter<WholeBody>(call, out, done, ([body]) => body!)
    },
    writeError: (error) => {
      const { status, headers } = error
      return { status, headers, body: toErrorBody(error) }
    },
  }
}

export function answerOf(route: GetRoute): Stage {
  return {
    name: 'answer',
    async before(call) {
      const answer = await route.answer(call)
      const isDocument = answer instanceof PublicDocument
      const body = isDocument ? await documentBody(answer, call.incoming) : { text: answer }
      call.source = feedOf([body])
    },
  }
}
