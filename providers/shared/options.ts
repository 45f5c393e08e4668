/** Options that several providers share. */
import * as v from 'valibot'
import type { OptionField } from '../../src/plugin.ts'

/** It is sent with every request. Wins over the headers that the plugin sends. */
export const headersOption = v.optional(v.record(v.string(), v.string()), {})

/** A required API key. */
export const apiKey = v.pipe(v.string(), v.nonEmpty('an API key'))

/** Base address of the vendor's API. */
export const baseURL = v.pipe(v.string(), v.url())

/** Voice names that clients use, and the vendor's names for them. */
export const voicesOption = v.optional(v.record(v.string(), v.string()), {})

// Fields of options that may be set at run time. Logins of clouds are not among them: they use the identity of the machine.

/** The key of a vendor. */
export const KEY_FIELD: OptionField = {
  name: 'apiKey',
  label: 'API key',
  kind: 'secret',
  required: true,
}

/** The address of a vendor that has one already. */
export const ADDRESS_FIELD: OptionField = {
  name: 'baseURL',
  label: 'Address',
  help: 'Only for a proxy or another region of the vendor.',
  kind: 'address',
}
