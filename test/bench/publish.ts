/** `node test/bench/publish.ts <file>`: writes table and chart of a run of `npm run bench -- --all --json` into the documentation. */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { chartOf } from './chart.ts'
import { withFigures } from './page.ts'
import type { Run } from './judge.ts'

const [file] = process.argv.slice(2)
if (file === undefined) {
  process.stderr.write('usage: node test/bench/publish.ts <file of bench --json>\n')
  process.exit(2)
}
const folder = join(import.meta.dirname, '../../docs/explain')
const run = JSON.parse(readFileSync(file, 'utf8')) as Run
const page = join(folder, 'numbers.md')
writeFileSync(page, withFigures(readFileSync(page, 'utf8'), run))
writeFileSync(join(folder, 'numbers.svg'), chartOf(run))
