/** Opaque names for the end users of a key: vendors detect abuse by them, and learn nothing else. */
import { createHmac, randomBytes } from 'node:crypto'
import type { Records } from '../state/records.ts'

const RECORD = 'secret:labels'
const SECRET_BYTES = 32
const LABEL_DIGITS = 32

type LabelOf = (account: string, name: string) => string

/** Labels of one gateway, or of all that share its records: the same name of an account has the same label for ever. */
export class Labels {
  readonly #records: Records
  #opened: Promise<LabelOf> | undefined

  constructor(records: Records) {
    this.#records = records
  }

  /** The function that makes labels; the first call reads or makes their secret. @throws errors of the records */
  open(): Promise<LabelOf> {
    return (this.#opened ??= this.#open().catch((error: unknown) => {
      this.#opened = undefined
      throw error
    }))
  }

  async #open(): Promise<LabelOf> {
    await this.#records.create(RECORD, { secret: randomBytes(SECRET_BYTES).toString('hex') })
    const { secret } = (await this.#records.get<{ secret: string }>(RECORD))!
    return (account, name) =>
      createHmac('sha256', secret)
        .update(`${account}\0${name}`)
        .digest('hex')
        .slice(0, LABEL_DIGITS)
  }
}
