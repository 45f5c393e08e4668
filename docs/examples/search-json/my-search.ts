/** For a made-up search service: `GET /find?words=…` answers `{ "found": [{ "link", "name", "excerpt" }] }`. */
import * as v from 'valibot'
import { defineSearch } from 'sluicegate'

export default defineSearch({
  name: 'my-search',
  options: v.strictObject({ url: v.pipe(v.string(), v.url()) }),
  setup({ url: address }, host) {
    return {
      async search(query, signal) {
        const words = encodeURIComponent(query.text(200))
        const url = `${address}/find?words=${words}&limit=${query.maxResults}`
        const response = await host.request({ url, method: 'GET', signal })
        const { found = [] } = await host.readJson(response)
        return {
          results: found.map(({ link, name, excerpt }: any) => ({
            url: link,
            title: name,
            content: excerpt,
          })),
        }
      },
    }
  },
})
