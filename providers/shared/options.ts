/** Options that several providers share. */
import * as v from 'valibot'

/** Sent with every request. Wins over the headers that the plugin sends. */
export const headersOption = v.optional(v.record(v.string(), v.string()), {})

/** A required API key. */
export const apiKey = v.pipe(v.string(), v.nonEmpty('an API key'))

/** Base address of the vendor's API. */
export const baseURL = v.pipe(v.string(), v.url())

/** Voice names that clients use, and the vendor's names for them. */
export const voicesOption = v.optional(v.record(v.string(), v.string()), {})
