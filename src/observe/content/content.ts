/** The contents of a call, and questions to the log of contents. */
import type { DecidedRule } from '../record.ts'

/** What a call asked and what its client got. */
export interface CallContent {
  /** Of the request, with its prefix. */
  readonly id: string
  readonly account: string
  readonly key: string
  /** The label of the end user; see `labelsOf`. */
  readonly user?: string | undefined
  readonly endpoint: string
  /** An id of the catalog; absent where the request named none. */
  readonly model?: string | undefined
  /** What guards decided. */
  readonly decided: readonly DecidedRule[]
  /** JSON of the request in the gateway's own form. */
  readonly input: string
  /** JSON of the texts that the client got: {@link SaidText}[]. */
  readonly output: string
  /** One of them was longer than is kept. */
  readonly cut: boolean
}

/** A text of an answer. */
export interface SaidText {
  readonly choice: number
  /** Of the contract with guards, such as `content`, `reasoning`, `tool_call`. */
  readonly channel: string
  readonly text: string
}

/** Which contents are asked for, newest first. */
export interface ContentQuery {
  /** Absent: of all keys. */
  readonly key?: string | undefined
  /** ms since epoch: from this moment on, and before that one. */
  readonly from?: number | undefined
  readonly to?: number | undefined
  readonly limit: number
}

/** Which contents are removed; at least one member. */
export interface ContentRemoval {
  readonly key?: string | undefined
  /** The label of an end user. */
  readonly user?: string | undefined
  /** ms since epoch. */
  readonly before?: number | undefined
}
