import { createHash, hash, type Hash } from 'node:crypto'
import { AnswerCopy, type KeptAnswer, type Repeatable } from '../../answers/repeats.ts'
import { InvalidRequest } from '../../errors/errors.ts'
import { formatPico } from '../../money/money.ts'
import { feedOf } from '../../stream/flow.ts'
import { idempotencyKeyIn, ownerOf } from '../caller.ts'
import type { Outgoing } from '../http.ts'
import type { Call, Done, Stage, Writer } from '../pipeline.ts'

const RETRY_SECONDS = 2

/**
 * Makes a request repeatable whose client names it: the first one is answered, and charged once; a later one gets the same
 * answer again, or hears why not.
 * @throws InvalidRequest for a malformed name, one that means another request, an answer that is not kept, and a request that
 * still runs
 */
export const claim: Stage = {
  name: 'claim',
  before(call) {
    if (!call.runtime.config.idempotency.enabled) return undefined
    // On the free tier nothing is charged, and nothing is kept.
    if (!call.admission.entered!.paid) return undefined
    const value = idempotencyKeyIn(call.incoming)
    return value === undefined ? undefined : claimed(call, value)
  },

  /** A call that ended while it waited for its claim, or that could not be booked, gives it back here. */
  end: (call) => call.keep(),
}

async function claimed(call: Call, value: string): Promise<void> {
  const { runtime, admission } = call
  const { keep, most } = runtime.config.idempotency
  const { key, secret } = ownerOf(call)
  const one: Repeatable = {
    name: hash('sha256', `${key} ${value}`),
    account: admission.account.id,
    request: call.id,
    print: printOf(call),
    secret,
    value,
  }
  const claim = await runtime.repeats.claim(one, keep)
  if (claim.is === 'answered') return replay(call, claim.answer)
  if (claim.is !== 'first') throw refusalOf(claim)
  const copy = new AnswerCopy(most)
  call.copy = copy
  call.keeping = async (outcome) => {
    if (!(await runtime.repeats.holds(one, claim.held, keep))) {
      call.charge?.giveUp()
      return undefined
    }
    if (outcome !== 'completed' && outcome !== 'refused') return runtime.repeats.release(one)
    // The client does not get an answer that could not be booked.
    call.keeping = async () => {
      if (call.answer.unbooked) await runtime.repeats.release(one)
    }
    return runtime.repeats.keep(one, copy, keep)
  }
}

function replay(call: Call, answer: KeptAnswer): void {
  call.source = feedOf([])
  call.writer = (out, done) => new Replay(call, out, done, answer)
}

type Unanswered = Exclude<
  Awaited<ReturnType<Call['runtime']['repeats']['claim']>>,
  { readonly is: 'first' | 'answered' }
>

function refusalOf(claim: Unanswered): InvalidRequest {
  const { is, request } = claim
  if (is === 'other') {
    const message = `This Idempotency-Key belongs to another request (${request}). Use a new one for each request.`
    return new InvalidRequest('idempotency_key_reused', message)
  }
  if (is === 'gone') {
    const message =
      `This request was completed as ${request} and cost ${formatPico(claim.cost)} USD; its answer was too large to keep, or could not be stored. ` +
      'Send it with another Idempotency-Key to buy it again.'
    return new InvalidRequest('idempotency_answer_gone', message)
  }
  const what =
    is === 'running'
      ? `is running as ${request}`
      : `ran as ${request} on a gateway that ended; whether it was charged is not known yet`
  const message = `A request with this Idempotency-Key ${what}. Try again in ${RETRY_SECONDS}s.`
  const headers = { 'retry-after': String(RETRY_SECONDS) }
  return new InvalidRequest('idempotency_in_progress', message, { headers })
}

/** Sends an answer as it was sent before. */
class Replay implements Writer {
  readonly #call: Call
  readonly #out: Outgoing
  readonly #done: Done
  readonly #answer: KeptAnswer

  constructor(call: Call, out: Outgoing, done: Done, answer: KeptAnswer) {
    this.#call = call
    this.#out = out
    this.#done = done
    this.#answer = answer
  }

  push(): void {}

  batchEnd(): boolean {
    return true
  }

  end(): void {
    const call = this.#call
    const { status, type, bytes, request } = this.#answer
    call.answer.status = status
    const send = () => {
      this.#out.head(status, {
        'content-type': type,
        'content-length': String(bytes.length),
        'x-service-cost': '0',
        'idempotent-replayed': 'true',
        'x-service-original-request': request,
      })
      this.#out.end(bytes)
      this.#done()
    }
    const ending = call.end('replayed')
    if (ending) ending.then(send, this.#done)
    else send()
  }

  fail(error: unknown): void {
    this.#done(error)
  }
}

// What is asked, as a hash. Forms have no text: the boundary between their parts is another one each time.

function printOf({ path, request: { rawJson, input } }: Call): string {
  const digest = createHash('sha256').update(path)
  if (rawJson?.text === undefined) add(digest, input)
  else digest.update(rawJson.text)
  return digest.digest('hex')
}

/** Adds a value. Its nesting is bounded by what bodies may have. */
function add(digest: Hash, value: unknown): void {
  if (value instanceof Uint8Array) digest.update(`b${hash('sha256', value)}`)
  else if (Array.isArray(value)) {
    digest.update(`[${value.length}`)
    for (const item of value) add(digest, item)
  } else if (typeof value === 'object' && value !== null) addMembers(digest, value)
  else if (typeof value !== 'function') digest.update(JSON.stringify([typeof value, value]) ?? '')
}

function addMembers(digest: Hash, value: object): void {
  // The pieces of a file, where there are any: `bytes` would join them.
  const { segments } = value as { readonly segments?: readonly Uint8Array[] }
  const file = segments && createHash('sha256')
  for (const segment of segments ?? []) file!.update(segment)
  if (file) digest.update(file.digest())
  for (const [name, member] of Object.entries(value)) {
    if (segments && (name === 'segments' || name === 'bytes')) continue
    digest.update(`{${JSON.stringify(name)}`)
    add(digest, member)
  }
}
