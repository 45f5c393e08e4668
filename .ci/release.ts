/** Checks that a tag can be released, and prints its version for the jobs that follow. Run with the tag, such as `v0.2.0`. */
import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'

const ROOT = resolve(import.meta.dirname, '..')
const tag = process.argv[2] ?? ''
const manifest = JSON.parse(readFileSync(resolve(ROOT, 'package.json'), 'utf8'))
const changelog = readFileSync(resolve(ROOT, 'CHANGELOG.md'), 'utf8')
const chart = readFileSync(resolve(ROOT, 'config/deploy/helm/sluicegate/Chart.yaml'), 'utf8')
const { version } = manifest

const faults = [
  ...(tag === `v${version}` ? [] : [`the tag is ${tag}, the version of package.json ${version}`]),
  ...(changelog.includes(`\n## ${version} - `)
    ? []
    : [`CHANGELOG.md has no dated section ${version}`]),
  ...(chart.includes(`\nversion: ${version}\nappVersion: ${version}\n`)
    ? []
    : [`the chart has not the version ${version}`]),
  // Provenance names the repository.
  ...['repository', 'bugs', 'homepage'].flatMap((name) =>
    manifest[name] ? [] : [`package.json has no "${name}"`],
  ),
]
if (faults.length > 0) {
  process.stderr.write(`${faults.map((fault) => `Cannot release: ${fault}.\n`).join('')}`)
  process.exit(1)
}
process.stdout.write(`version=${version}\n`)
