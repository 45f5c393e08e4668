import { it } from 'vitest'
import { page } from './_markdown.ts'
import { runPage } from './_run.ts'

it.each(['README.md', 'docs/quickstart.md'])('%s runs, block by block', (path) =>
  runPage(page(path), { served: false }),
)
