/** Descriptions of options. No import: forms in a browser use them too. */

/** The description of one option, for forms and for options that are set at run time. */
export interface OptionField {
  /** Name of the option; `guardrail.id` for one that is a level below. */
  readonly name: string
  readonly label: string
  readonly help?: string
  readonly example?: string
  /** A `secret` is sealed in the store and never shown; an `address` is an http or https address. */
  readonly kind: 'text' | 'secret' | 'address' | 'number' | 'flag' | 'choice' | 'list'
  readonly required?: boolean
  /** The values of a choice. */
  readonly choices?: readonly string[]
}
