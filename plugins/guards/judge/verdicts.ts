/** Asks a brain about windows of a text, once more where it does not answer, and remembers what it said. */
import { createHmac, randomBytes } from 'node:crypto'
import type { GuardContext, GuardHost, Verdict } from '../../../src/plugin.ts'
import { InvalidAnswer, type Asked, type Brain, type Hit } from './brain.ts'
import type { Window } from './turn.ts'

const REMEMBERED_SECONDS = 600
/** Nobody outside of this process can tell what is remembered. */
const secret = randomBytes(32)

/** What blocks, and which unit. */
export interface Found {
  readonly unit: number
  readonly verdict: Verdict
}

export class Verdicts {
  readonly #brain: Brain
  readonly #host: GuardHost

  constructor(brain: Brain, host: GuardHost) {
    this.#brain = brain
    this.#host = host
  }

  /**
   * The first block in any of the windows, which are asked about at the same time. A window that failed does not keep
   * another one from blocking.
   * @throws whatever kept a window from being judged, if none of them blocks
   */
  async firstBlock(
    windows: readonly Window[],
    model: string,
    context: GuardContext,
  ): Promise<Found | undefined> {
    const asked = windows.map((window) => this.#judge(window, model, context))
    const blocks = asked.map((one) =>
      one.then((found) => found ?? Promise.reject(new Error('none'))),
    )
    try {
      return await Promise.any(blocks)
    } catch {
      await Promise.all(asked)
      return undefined
    }
  }

  async #judge(window: Window, model: string, context: GuardContext): Promise<Found | undefined> {
    const { unit, material } = window
    const key = this.#keyOf(window, model, context)
    const known = this.#host.cache.get(context, key) as readonly Hit[] | undefined
    const hits = known ?? (await this.#ask(material, model, context))
    if (!known) this.#host.cache.set(context, key, hits, REMEMBERED_SECONDS)
    const [hit] = hits
    return hit && { unit, verdict: { action: 'block', rule: hit.rule, score: hit.score } }
  }

  /** Once more when the answer is none: models are not always of the same mind. */
  async #ask(
    material: Window['material'],
    model: string,
    context: GuardContext,
  ): Promise<readonly Hit[]> {
    const asked: Asked = {
      model,
      signal: context.signal,
      ask: (request) => this.#host.askModel(model, request, context),
    }
    try {
      return await this.#brain.judge(material, context.rules, asked)
    } catch (error) {
      if (!(error instanceof InvalidAnswer) || context.signal.aborted) throw error
      return this.#brain.judge(material, context.rules, asked)
    }
  }

  /** Everything that an answer depends on. */
  #keyOf({ material }: Window, model: string, { origin, rules }: GuardContext): string {
    const all = [this.#brain.id, model, origin, rules.scopes, rules.deny, material]
    return createHmac('sha256', secret).update(JSON.stringify(all)).digest('base64url')
  }
}
