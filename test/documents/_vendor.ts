/** The vendor and the search engine of the pages: one server on loopback that answers what the pages ask. */
import { pngOfPixels } from '../_documents.ts'
import { events, json, startUpstream, type FakeResponse, type FakeUpstream } from '../upstream.ts'

/** What the search engine finds, and how the model cites it. */
const PAGE = {
  url: 'https://example.org/bridge',
  title: 'Bridge history',
  content: 'Opened on 19 March 1932.',
}
const CITATION = `In 1932 [example.org](${PAGE.url}).`

export async function startVendor(): Promise<FakeUpstream> {
  const vendor = await startUpstream()
  vendor.answer(({ path, body }) => answerTo(path.split('?')[0]!, body.toString('latin1')))
  return vendor
}

function answerTo(path: string, asked: string): FakeResponse {
  if (path.includes('/images/')) {
    if (asked.includes('Break off.')) {
      const image = pngOfPixels({ width: 8, height: 8 }, new Uint8Array(64)).toString('base64')
      const sketch = { type: 'image_generation.partial_image', b64_json: image }
      const { pieces } = events({ ...sketch, partial_image_index: 0 })
      return { ...events(), pieces: [...pieces, ': gone\n\n'], pauseMs: 300 }
    }
    const image = pngOfPixels({ width: 1, height: 1 }, new Uint8Array(1)).toString('base64')
    const usage = { input_tokens: 7, output_tokens: 272, total_tokens: 279 }
    return json({ created: 1, data: [{ b64_json: image }], output_format: 'png', usage })
  }
  if (path.endsWith('/audio/transcriptions')) {
    return json({
      text: 'Turn left.',
      duration: 2,
      segments: [{ id: 0, start: 0, end: 2, text: 'Turn left.' }],
      usage: { type: 'duration', seconds: 2 },
    })
  }
  if (path.endsWith('/embeddings')) {
    const data = [0, 1].map((index) => ({ object: 'embedding', index, embedding: [0.6, 0.8] }))
    return json({ object: 'list', data, usage: { prompt_tokens: 4, total_tokens: 4 } })
  }
  if (path.endsWith('/search')) {
    return json({ results: [PAGE] })
  }
  if (asked.includes('Break off.')) {
    const delta = { type: 'response.output_text.delta', item_id: 'm', output_index: 0 }
    const { pieces } = events({ ...delta, content_index: 0, delta: 'Hello.' })
    return { ...events(), pieces: [...pieces, ': gone\n\n'], pauseMs: 300 }
  }
  return events(...chatOf(asked.includes(PAGE.url) ? CITATION : 'Hello.'), '[DONE]')
}

/** Chunks of an answer. */
function chatOf(content: string): object[] {
  return [
    { choices: [{ index: 0, delta: { role: 'assistant', content }, finish_reason: null }] },
    { choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] },
    { choices: [], usage: { prompt_tokens: 8, completion_tokens: 2, total_tokens: 10 } },
  ].map((chunk) => ({ id: 'c', object: 'chat.completion.chunk', created: 1, model: 'm', ...chunk }))
}
