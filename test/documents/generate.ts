/** `npm run docs:generate`: writes the generated tables of all pages anew, and the list of pages. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { generate, pageList } from './_generated.ts'
import { pages, root } from './_markdown.ts'

for (const { path, text } of pages) {
  const made = generate(text)
  if (made === text) continue
  writeFileSync(join(root, path), made)
  process.stdout.write(`${path}\n`)
}
writeFileSync(join(root, 'docs/llms.txt'), pageList(pages))
