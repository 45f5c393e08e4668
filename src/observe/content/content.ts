import type { DecidedRule } from '../record.ts'

export interface CallContent {
  /** Id of the request, with its prefix. */
  readonly id: string
  readonly account: string
  readonly key: string
  /** The label of the end user; see `labelsOf`. */
  readonly user?: string | undefined
  readonly endpoint: string
  /** An id of the catalog; absent where the request named none. */
  readonly model?: string | undefined
  readonly decided: readonly DecidedRule[]
  /** JSON of the request in the gateway's own form. */
  readonly input: string
  /** JSON of the texts that the client got, {@link OutputText}[]. */
  readonly output: string
  /** Whether one of them was longer than is kept. */
  readonly cut: boolean
}

export interface OutputText {
  readonly choice: number
  /** A channel of the contract with guards, such as `content`, `reasoning`, `tool_call`. */
  readonly channel: string
  readonly text: string
}
