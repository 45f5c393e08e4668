/** `node test/bench/publish.ts <file>`: writes the tables of a run of `npm run bench -- --json` into the documentation. */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Run } from './run.ts'
import { forPage } from './table.ts'

const BEGIN = '<!-- measured: node test/bench/publish.ts -->'
const END = '<!-- /measured -->'

const [file] = process.argv.slice(2)
if (file === undefined) {
  process.stderr.write('usage: node test/bench/publish.ts <file of bench --json>\n')
  process.exit(2)
}
const { heading, date, panels } = JSON.parse(readFileSync(file, 'utf8')) as Run
const path = join(import.meta.dirname, '../../docs/explain/numbers.md')
const page = readFileSync(path, 'utf8')
const [from, to] = [page.indexOf(BEGIN), page.indexOf(END)]
if (from < 0 || to < from) throw new Error(`${path} has no ${BEGIN} … ${END}`)
const figures = ['## Measured', `${heading}, on ${date}.`, ...panels.map(forPage)].join('\n\n')
writeFileSync(path, `${page.slice(0, from)}${BEGIN}\n\n${figures}\n\n${page.slice(to)}`)
