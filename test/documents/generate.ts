/** `npm run docs:generate`: writes the generated tables of all pages anew. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { generate } from './_generated.ts'
import { pages, root } from './_markdown.ts'

for (const { path, text } of pages) {
  const made = generate(text)
  if (made === text) continue
  writeFileSync(join(root, path), made)
  process.stdout.write(`${path}\n`)
}
