/** Texts of the source as settings here: references to the environment, and secrets that go into a file of their own. */
import { textOf } from './values.ts'

/** Values for `.env`, and the settings that refer to them. */
export class Settings {
  readonly #name: string
  readonly #reference: (text: string) => string | undefined
  /** Values by variable. They must not be shown. */
  readonly env = new Map<string, string>()
  readonly #variables = new Map<string, string>()

  /**
   * @param name beginning of the names of new variables
   * @param reference the variable that a text of the source means, if it means one
   */
  constructor(name: string, reference: (text: string) => string | undefined = () => undefined) {
    this.#name = name
    this.#reference = (text) => {
      const variable = reference(text)
      return variable === undefined ? undefined : `\${${variable}}`
    }
  }

  /** A text as it is, or a reference where the source reads the environment. Undefined for what is unset. */
  plain(value: unknown): string | undefined {
    const text = textOf(value)
    if (text === undefined) return undefined
    return this.#reference(text) ?? text.replaceAll('${', '$${')
  }

  /** A reference to the environment: one of the source, or a new variable that holds the secret. */
  secret(value: unknown): string | undefined {
    const text = textOf(value)
    if (text === undefined) return undefined
    const reference = this.#reference(text)
    if (reference !== undefined) return reference
    let variable = this.#variables.get(text)
    if (variable === undefined) {
      variable = `${this.#name}_SECRET_${this.#variables.size + 1}`
      this.#variables.set(text, variable)
      this.env.set(variable, text)
    }
    return `\${${variable}}`
  }

  /** Keeps the value of a variable that the source sets itself. */
  set(variable: string, value: string): void {
    this.env.set(variable, value)
  }

  /** An address; one with user information or a query may hold a secret. */
  address(value: unknown): string | undefined {
    const text = textOf(value)
    return text !== undefined && /[@?]/.test(text) ? this.secret(text) : this.plain(text)
  }
}
