/** `npm run docs:generate`: writes the generated tables of all pages anew, the list of pages, and what the chart has copies of. */
import { copyFileSync, writeFileSync } from 'node:fs'
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

// A chart renders only files of its own folder.
const deploy = join(root, 'config/deploy')
const chart = join(deploy, 'helm/sluicegate/files')
copyFileSync(join(deploy, 'prometheus/alerts.yaml'), join(chart, 'alerts.yaml'))
copyFileSync(join(deploy, 'grafana/sluicegate.json'), join(chart, 'dashboard.json'))
