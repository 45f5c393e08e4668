/** For a made-up vendor of images: `POST <url>` with `{ "prompt", "size", "count" }` answers `{ "images": ["<base64>"] }`. */
import * as v from 'valibot'
import { defineProvider } from 'sluicegate'

export default defineProvider({
  name: 'my-provider',
  options: v.strictObject({ url: v.pipe(v.string(), v.url()), apiKey: v.string() }),
  setup({ url, apiKey }, host) {
    const headers = { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json' }
    return {
      async generateImage({ input, model, signal }) {
        const { prompt, size, n } = input
        const body = host.json({ model, prompt, size, count: n })
        const response = await host.request({ url, headers, body, signal })
        const { images } = await host.readJson(response)
        if (!Array.isArray(images)) throw host.fail('upstream_error')
        return { data: images.map((b64_json: string) => ({ b64_json })) }
      },
    }
  },
})
