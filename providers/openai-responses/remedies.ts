/** What a vendor refuses depends on the model and on the organization; it is learned from the refusals. */
import type { Problem } from '../openai-compatible/errors.ts'
import { ENCRYPTED, type ResponsesBody } from './request.ts'

/** What was learned about a model. An absent member was not learned. */
interface Traits {
  readonly reasons?: boolean
  readonly summaries?: boolean
}

/** Finds what to leave out of a refused request. Remembers what every request to the model would be refused for. */
export class Remedies {
  readonly #traits = new Map<string, Traits>()

  /** What was learned about a model. */
  learned(model: string): Traits {
    return this.#traits.get(model) ?? {}
  }

  /** The body without what was refused; undefined when nothing in it can be left out. */
  find({ code, param, message }: Problem, body: ResponsesBody): ResponsesBody | undefined {
    const { input, include = [], reasoning } = body
    // Encrypted for another organization, or by another family of models.
    if (code === 'invalid_encrypted_content') {
      const rest = input.filter(({ type }) => type !== 'reasoning')
      return rest.length < input.length ? { ...body, input: rest } : undefined
    }
    const about = `${param ?? ''} ${message}`
    // Only verified organizations get summaries.
    if (reasoning?.summary !== undefined && /reasoning\W{0,2}summar/i.test(about)) {
      this.#learn(body.model, { summaries: false })
      const { summary: _refused, ...rest } = reasoning
      return { ...body, reasoning: Object.keys(rest).length > 0 ? rest : undefined }
    }
    if (include.includes(ENCRYPTED) && /encrypted.content/i.test(about)) {
      this.#learn(body.model, { reasons: false })
      const rest = include.filter((name) => name !== ENCRYPTED)
      return { ...body, include: rest.length > 0 ? rest : undefined, reasoning: undefined }
    }
    return undefined
  }

  #learn(model: string, traits: Traits): void {
    this.#traits.set(model, { ...this.learned(model), ...traits })
  }
}
