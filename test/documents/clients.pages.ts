import { expect, it } from 'vitest'
import { pages } from './_markdown.ts'
import { runPage } from './_run.ts'

const clients = pages.filter(({ path }) => path.startsWith('docs/clients/'))
const run = clients.filter(({ blocks }) =>
  blocks.some(({ language }) => ['js', 'sh'].includes(language)),
)

it('there is a page for each client', () => {
  expect(clients.length).toBeGreaterThan(10)
})

it.concurrent.each(run.map((page) => [page.path, page] as const))(
  '%s runs, block by block',
  (_, page) => runPage(page, { served: true }),
)
