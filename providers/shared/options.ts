/** Options that several providers have. */
import * as v from 'valibot'

/** Sent with every request; wins over the headers that the plugin sends. */
export const headersOption = v.optional(v.record(v.string(), v.string()), {})

/** A required API key. */
export const apiKey = v.pipe(v.string(), v.nonEmpty('an API key'))

/** An address of the vendor's API. */
export const baseURL = v.pipe(v.string(), v.url())

/** Names of voices that clients use, and the vendor's names for them. */
export const voicesOption = v.optional(v.record(v.string(), v.string()), {})
