import { createHmac, randomBytes } from 'node:crypto'
import type { GuardContext, GuardHost, Verdict } from '../../../src/plugin.ts'
import { InvalidAnswer, type ModelClient, type JudgeModel, type RuleMatch } from './judge-model.ts'
import type { Window } from './windows.ts'

const REMEMBERED_SECONDS = 600
/** Keeps cache keys unpredictable from outside this process. */
const secret = randomBytes(32)

/** A blocking verdict, and the index of the text. */
interface Block {
  readonly index: number
  readonly verdict: Verdict
}

/** Asks a judge model about windows of a text, and caches its answers. */
export class WindowJudge {
  readonly #judgeModel: JudgeModel
  readonly #host: GuardHost

  constructor(judgeModel: JudgeModel, host: GuardHost) {
    this.#judgeModel = judgeModel
    this.#host = host
  }

  /**
   * The first block in any window. All windows are judged at the same time. A failure of one window does not prevent a
   * block by another.
   * @throws the failure of a window, when no window blocks
   */
  async firstBlock(
    windows: readonly Window[],
    model: string,
    context: GuardContext,
  ): Promise<Block | undefined> {
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

  async #judge(window: Window, model: string, context: GuardContext): Promise<Block | undefined> {
    const { index, input } = window
    const key = this.#keyOf(window, model, context)
    const known = this.#host.cache.get(context, key) as readonly RuleMatch[] | undefined
    const matches = known ?? (await this.#ask(input, model, context))
    if (!known) this.#host.cache.set(context, key, matches, REMEMBERED_SECONDS)
    const [match] = matches
    return match && { index, verdict: { action: 'block', rule: match.rule, score: match.score } }
  }

  /** Asks once more after an unusable answer, because models do not always answer the same. */
  async #ask(
    input: Window['input'],
    model: string,
    context: GuardContext,
  ): Promise<readonly RuleMatch[]> {
    const client: ModelClient = {
      model,
      signal: context.signal,
      ask: (request) => this.#host.askModel(model, request, context),
    }
    try {
      return await this.#judgeModel.judge(input, context.rules, client)
    } catch (error) {
      if (!(error instanceof InvalidAnswer) || context.signal.aborted) throw error
      return this.#judgeModel.judge(input, context.rules, client)
    }
  }

  /** Covers everything that the answer depends on. */
  #keyOf({ input }: Window, model: string, { origin, rules }: GuardContext): string {
    const all = [this.#judgeModel.id, model, origin, rules.scopes, rules.deny, input]
    return createHmac('sha256', secret).update(JSON.stringify(all)).digest('base64url')
  }
}
