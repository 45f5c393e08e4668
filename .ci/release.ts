/**
 * Checks that a tag can be released, and prints its version for the jobs that follow. Run with the tag, such as `v0.2.0`; with
 * `--addresses` behind it, `package.json` gets those of the repository, which provenance needs.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { resolve } from 'node:path'

const ROOT = resolve(import.meta.dirname, '..')
const tag = process.argv[2] ?? ''
const manifest = JSON.parse(readFileSync(resolve(ROOT, 'package.json'), 'utf8'))
const changelog = readFileSync(resolve(ROOT, 'CHANGELOG.md'), 'utf8')
const chart = readFileSync(resolve(ROOT, 'config/deploy/helm/sluicegate/Chart.yaml'), 'utf8')
const prices = JSON.parse(readFileSync(resolve(ROOT, 'config/prices.json'), 'utf8'))
const { version } = manifest
/** The list of prices is made anew before a release, unless that was done so many days ago. */
const MAX_PRICES_DAYS = 60
/** What pages say while nothing is released. */
const UNRELEASED = ['README.md', 'docs/install/npm.md', 'docs/trust.md'].filter((path) =>
  /Not published yet|Nothing is released/.test(readFileSync(resolve(ROOT, path), 'utf8')),
)
const pricesDays = (Date.now() - Date.parse(prices.generated_at)) / 86_400_000

const faults = [
  ...(tag === `v${version}` ? [] : [`the tag is ${tag}, the version of package.json ${version}`]),
  ...(changelog.includes(`\n## ${version} - `)
    ? []
    : [`CHANGELOG.md has no dated section ${version}`]),
  ...(chart.includes(`\nversion: ${version}\nappVersion: ${version}\n`)
    ? []
    : [`the chart has not the version ${version}`]),
  ...UNRELEASED.map((path) => `${path} says that nothing is released`),
  ...(pricesDays <= MAX_PRICES_DAYS
    ? []
    : [`config/prices.json is ${Math.floor(pricesDays)} days old: import the prices again`]),
]
if (faults.length > 0) {
  process.stderr.write(`${faults.map((fault) => `Cannot release: ${fault}.\n`).join('')}`)
  process.exit(1)
}
process.stdout.write(`version=${version}\n`)

if (process.argv[3] === '--addresses') {
  const { GITHUB_SERVER_URL, GITHUB_REPOSITORY } = process.env
  const page = `${GITHUB_SERVER_URL}/${GITHUB_REPOSITORY}`
  const addresses = {
    homepage: `${page}#readme`,
    bugs: { url: `${page}/issues` },
    repository: { type: 'git', url: `git+${page}.git` },
  }
  const file = resolve(ROOT, 'package.json')
  writeFileSync(file, `${JSON.stringify({ ...manifest, ...addresses }, null, 2)}\n`)
}
