/** Posts alerts to a room of a made-up chat: `POST <url>` with `{ "text" }`. */
import * as v from 'valibot'
import { defineSink } from 'sluicegate'

export default defineSink({
  name: 'my-sink',
  options: v.strictObject({ url: v.pipe(v.string(), v.url()) }),
  setup({ url }, host) {
    return {
      takes: ['alert'],
      async send(events, signal) {
        const lines = events.flatMap(({ event, data }) =>
          event === 'alert' ? [`${data.state}: ${data.message}`] : [],
        )
        const body = JSON.stringify({ text: lines.join('\n') })
        const headers = { 'content-type': 'application/json' }
        const response = await host.request({ url, headers, body, signal })
        if (response.status > 299) throw await host.failure(response)
        await response.text()
      },
    }
  },
})
