/** Sends traces to any receiver of OpenTelemetry: a collector, Jaeger, Tempo, and most services. */
import * as v from 'valibot'
import { defineSink, type OptionField } from '../../src/plugin.ts'
import { traceSink } from './traces/post.ts'

const ADDRESS = 'an address that begins with https:// or http://, without /v1/traces'

const options = v.strictObject({
  endpoint: v.pipe(
    v.string(ADDRESS),
    v.url(ADDRESS),
    v.regex(/^https?:/i, ADDRESS),
    v.check((url) => !/\/v1\/traces\/?$/.test(url), ADDRESS),
  ),
  /** Headers such as `authorization`. */
  headers: v.optional(v.record(v.string(), v.string()), {}),
})

const fields: readonly OptionField[] = [
  {
    name: 'endpoint',
    label: 'Address',
    help: 'The address without /v1/traces.',
    kind: 'address',
    required: true,
  },
]

export default defineSink({
  name: 'otlp',
  options,
  fields,
  setup({ endpoint, headers }, host) {
    return traceSink({ url: `${endpoint.replace(/\/+$/, '')}/v1/traces`, headers }, host)
  },
})
