/** Public lists of prices, as `sluicegate models import` reads them. */

/** A list of prices in a form of its own. It reads its argument and nothing else. */
export interface PriceSource {
  /** Name for `--from`, which its prices carry. */
  readonly name: string
  /** Where the list is published, https. */
  readonly url: string
  /** Whether its licence allows to copy it, such as `MIT`. */
  readonly licence: string
  /** Whether a file has the form of this list. @param file JSON in which each number is the text of the file */
  matches(file: unknown): boolean
  /** The models of the list. Anything unexpected in one of them is left out. @param file the file, as in `matches` */
  read(file: unknown): Iterable<PriceRow | SkippedRow>
}

/** A price as it is written in a list: USD for so many units, 1 by default. */
export interface PriceText {
  /** The highest of several texts counts. */
  readonly text: string | readonly string[]
  readonly per?: number
}

/** A list's data about one model. */
export interface PriceRow {
  /** `<vendor>/<name at the vendor>`, the vendor by the gateway's name for it. */
  readonly id: string
  readonly modality?: string
  /** Prices by the gateway's names. */
  readonly prices: Readonly<Record<string, PriceText>>
  /** Prices of long prompts, by the tokens from which they apply. */
  readonly tiers?: Readonly<Record<string, Readonly<Record<string, PriceText>>>>
  /** Prices of the list that the gateway does not know, by the list's names. */
  readonly unmapped?: readonly string[]
  /** Why the prices cannot be trusted, though each can be read. */
  readonly doubt?: string
  readonly name?: string
  /** Tokens. */
  readonly contextLength?: number
  /** Tokens. */
  readonly maxOutputTokens?: number
  readonly capabilities?: readonly string[]
  /** Origin of the list's prices, if they are not its own. */
  readonly source?: string
  /** `YYYY-MM-DD` */
  readonly deprecatedOn?: string
  /** The name of the model that takes its place, at the vendor. */
  readonly successor?: string
  /** Other names that mean it at the vendor. */
  readonly aliases?: readonly string[]
  /** When the vendor released it, seconds since epoch. */
  readonly created?: number
}

/** A model that the gateway cannot serve. */
export interface SkippedRow {
  /** Subject of the reason, such as the name of its vendor. */
  readonly skipped: string
}
