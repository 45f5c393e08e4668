import { expect, it } from 'vitest'
import { partsOf } from '../../../src/endpoints/ocr/endpoint.ts'
import type { OcrResult } from '../../../src/plugin.ts'

const pagesOf = (...pages: unknown[]) =>
  partsOf({ pages } as OcrResult, { bytes: null }).filter(({ type }) => type === 'page')

it.each<[unknown]>([
  [null],
  ['page'],
  [{ markdown: 'a' }],
  [{ index: -1, markdown: 'a' }],
  [{ index: 0, markdown: 5 }],
])('refuses %j as a page', (page) => {
  expect(() => pagesOf({ index: 0, markdown: 'a' }, page)).toThrow('malformed page')
})

it('leaves out members of a page that clients cannot read', () => {
  const page = {
    index: 0,
    markdown: 'a',
    dimensions: { dpi: 200, height: 2 },
    images: [null, { id: 'x', top_left_x: '5' }, { top_left_x: 5 }],
    tables: [7],
    hyperlinks: 'none',
    header: {},
    footer: 'f',
    blocks: [{ type: '' }],
    confidence_scores: [],
    unknown: [1],
  }
  const corners = { top_left_y: null, bottom_right_x: null, bottom_right_y: null }
  expect(pagesOf(page)).toEqual([
    {
      type: 'page',
      page: {
        index: 0,
        markdown: 'a',
        dimensions: null,
        images: [{ id: 'img-0', top_left_x: 5, ...corners }],
        footer: 'f',
        unknown: [1],
      },
    },
  ])
})
