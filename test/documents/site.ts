/** `npm run docs:site`: writes the documentation as a site into the folder `site`. */
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { root } from './_markdown.ts'
import { writeSite } from './_site.ts'

const folder = join(root, 'site')
rmSync(folder, { recursive: true, force: true })
const broken = writeSite(folder)
if (broken.length > 0) {
  process.stderr.write(`${broken.join('\n')}\n`)
  process.exit(1)
}
process.stdout.write(`Wrote ${folder}\n`)
