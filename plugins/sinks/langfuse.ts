/** Sends traces to Langfuse, by its receiver of OpenTelemetry. https://langfuse.com/docs/opentelemetry/get-started */
import * as v from 'valibot'
import { defineSink, type OptionField } from '../../src/plugin.ts'
import { traceSink } from './traces/post.ts'

const ADDRESS = 'an address that begins with https:// or http://'
const KEY = 'a key of a project of Langfuse'
const key = v.pipe(v.string(KEY), v.minLength(1, KEY))

const options = v.strictObject({
  host: v.optional(
    v.pipe(v.string(ADDRESS), v.url(ADDRESS), v.regex(/^https?:/i, ADDRESS)),
    'https://cloud.langfuse.com',
  ),
  publicKey: key,
  secretKey: key,
})

const fields: readonly OptionField[] = [
  { name: 'host', label: 'Address', kind: 'address', example: 'https://cloud.langfuse.com' },
  { name: 'publicKey', label: 'Public key', kind: 'secret', required: true },
  { name: 'secretKey', label: 'Secret key', kind: 'secret', required: true },
]

export default defineSink({
  name: 'langfuse',
  options,
  fields,
  setup({ host: address, publicKey, secretKey }, host) {
    const credentials = Buffer.from(`${publicKey}:${secretKey}`).toString('base64')
    host.mask([credentials])
    return traceSink(
      {
        url: `${address.replace(/\/+$/, '')}/api/public/otel/v1/traces`,
        headers: { authorization: `Basic ${credentials}`, 'x-langfuse-ingestion-version': '4' },
        more: ({ session, user, tag }) => ({
          langfuseSession: session,
          langfuseUser: user,
          langfuseTags: tag === null ? undefined : [tag],
        }),
      },
      host,
    )
  },
})
