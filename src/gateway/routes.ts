/** Which paths there are, and what happens to a request on its way. */
import { credits, key, models, type GetRoute } from '../endpoints/account/endpoints.ts'
import { chat } from '../endpoints/chat/endpoint.ts'
import { edits, generations } from '../endpoints/images/endpoint.ts'
import { ocr } from '../endpoints/ocr/endpoint.ts'
import { speech } from '../endpoints/speech/endpoint.ts'
import { transcription } from '../endpoints/transcription/endpoint.ts'
import { flowOf } from '../stream/flow.ts'
import type { Outgoing } from '../pipeline/http.ts'
import { compose, type Call, type Endpoint, type Reply, type Stage } from '../pipeline/pipeline.ts'
import { constrain } from '../pipeline/stages/constrain.ts'
import { enter } from '../pipeline/stages/enter.ts'
import { ground } from '../pipeline/stages/ground.ts'
import { guard } from '../pipeline/stages/guard.ts'
import { hold } from '../pipeline/stages/hold.ts'
import { read } from '../pipeline/stages/read.ts'
import { resolve } from '../pipeline/stages/resolve.ts'
import { route } from '../pipeline/stages/route.ts'
import { settle } from '../pipeline/stages/settle.ts'
import { trace } from '../pipeline/stages/trace.ts'
import { writeJson } from '../endpoints/shared/write.ts'

// What happens to a request? These two lines.
const entered: readonly Stage[] = [trace, enter]
const served: readonly Stage[] = [
  ...entered,
  read,
  resolve,
  hold,
  settle,
  constrain,
  guard,
  ground,
  route,
]

/** One path of the API and the pipeline behind it. */
export interface Route {
  readonly method: 'GET' | 'POST'
  readonly path: string
  readonly endpoint?: Endpoint
  run(call: Call): Promise<Reply>
  write(call: Call, reply: Reply, out: Outgoing): Promise<void>
}

export const ROUTES: readonly Route[] = [
  questionRoute(models),
  questionRoute(key),
  questionRoute(credits),
  endpointRoute(chat),
  endpointRoute(generations),
  endpointRoute(edits),
  endpointRoute(speech),
  endpointRoute(transcription),
  endpointRoute(ocr),
]

function endpointRoute(endpoint: Endpoint): Route {
  return {
    method: 'POST',
    path: endpoint.path,
    endpoint,
    run: compose(served),
    write: (call, reply, out) => endpoint.write(call, reply, out),
  }
}

function questionRoute(question: GetRoute): Route {
  const answer: Stage = async function answer(call) {
    return { parts: flowOf(await question.answer(call)) }
  }
  return {
    method: 'GET',
    path: question.path,
    run: compose(question.authenticated ? [...entered, answer] : [trace, answer]),
    async write(call, reply, out) {
      call.headers['cache-control'] = question.cacheControl
      for await (const body of reply.parts) await writeJson(call, out, body)
    },
  }
}
