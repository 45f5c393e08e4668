import { expect, it } from 'vitest'
import { pages } from './_markdown.ts'
import { runPage } from './_run.ts'

/** Pages that others run: the client pages, and those of `npm test`. */
const ELSEWHERE = /^docs\/(?:clients\/|examples\/|quickstart\.md$)/
/** Pages whose blocks ask a gateway that runs. */
const SERVED = new Set(
  [
    'explain/money',
    'keys-and-money',
    'migrate/from-new-api',
    'migrate/from-openrouter',
    'operate/backup',
    'operate/keys',
    'operate/monitor',
    'operate/upgrade',
    'operations',
    'policies',
    'streaming',
    'tasks/leaked-key',
    'tasks/members',
    'tasks/team-budgets',
  ].map((name) => `docs/${name}.md`),
)

const guides = pages.filter(
  ({ path, blocks }) =>
    (path.startsWith('docs/') || /^(?:providers|plugins)\/README\.md$/.test(path)) &&
    !ELSEWHERE.test(path) &&
    blocks.length > 0,
)

it('there are pages to run', () => {
  expect(guides.length).toBeGreaterThan(15)
})

it.concurrent.each(guides.map((page) => [page.path, page] as const))(
  '%s runs, block by block',
  (path, page) => runPage(page, { served: SERVED.has(path) || path.startsWith('docs/api/') }),
)
