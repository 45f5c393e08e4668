import { describe, expect, it } from 'vitest'
import { createTestGateway, MOCK_CONFIG } from '../../test/_setup.ts'
import { user } from '../../test/sdk/_setup.ts'
import { json, startUpstream } from '../../test/upstream.ts'

describe('the search engine of docs/plugins/search.md', () => {
  it('is loaded by its path and finds', async () => {
    const found = [{ link: 'https://a.example/', name: 'A', excerpt: 'All about a.' }]
    await using service = await startUpstream(json({ found }))
    await using t = await createTestGateway({
      ...MOCK_CONFIG,
      search: {
        engines: {
          mine: {
            use: '../docs/examples/search-json/my-search.ts',
            options: { url: service.url },
            price: '0.002',
          },
        },
      },
    })
    const answer = await t.chat({ model: 'mock/echo:online', messages: [user('What is a [1]?')] })
    expect(answer.json.choices[0].message.annotations[0].url_citation).toEqual({
      url: 'https://a.example/',
      title: 'A',
      start_index: 10,
      end_index: 13,
      content: 'All about a.',
    })
    expect(answer.json.usage.cost_details.web_search_cost).toBe(0.002)
    expect(service.requests[0]!.path).toBe('/find?words=What%20is%20a%20%5B1%5D%3F&limit=5')
    service.answer(json({}, 500))
    const other = await t.chat({ model: 'mock/echo:online', messages: [user('And b?')] })
    expect(other.json.choices[0].message.annotations).toEqual([])
    expect(t.logged.at(-1)).toContain('(The search engine failed to answer.)')
  })
})
