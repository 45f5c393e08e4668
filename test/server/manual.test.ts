import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { manualPages } from '../../src/server/manual.ts'

it('what the builder of the site keeps beside the pages is not a second manual', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'manual-'))
  onTestFinished(() => rm(folder, { recursive: true }))
  for (const name of [
    'tasks/leaked.md',
    '.vitepress/pages/docs/tasks/leaked.md',
    'node_modules/vue/README.md',
  ]) {
    await mkdir(dirname(join(folder, name)), { recursive: true })
    await writeFile(
      join(folder, name),
      '---\ntitle: A key has leaked\ndescription: What to do.\n---\n\n# A key has leaked\n',
    )
  }

  expect(await manualPages(folder)).toEqual([
    {
      page: 'tasks/leaked',
      title: 'A key has leaked',
      description: 'What to do.',
      text: '# A key has leaked\n',
    },
  ])
})
